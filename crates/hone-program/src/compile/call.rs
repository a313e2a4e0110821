//! Calls: of functions, of methods, with keywords and with starred arguments.

use ruff_python_ast::{Expr, ExprCall};

use super::{Compiler, Done};
use crate::code::Op;

impl<'a> Compiler<'a> {
    pub(super) fn call(&mut self, call: &'a ExprCall, scope: usize) -> Done {
        let arguments = &call.arguments;
        let is_spread =
            arguments.args.iter().any(Expr::is_starred_expr) || arguments.keywords.iter().any(|keyword| keyword.arg.is_none());
        if is_spread {
            return self.call_spread(call, scope);
        }
        if let (Expr::Attribute(attribute), true) = (&*call.func, arguments.keywords.is_empty()) {
            self.expr(&attribute.value, scope)?;
            for argument in &arguments.args {
                self.expr(argument, scope)?;
            }
            self.at(&attribute.attr);
            let name = self.name(attribute.attr.as_str());
            return self.emit(Op::CallMethod { n_args: arguments.args.len() as u32, name }).map(drop);
        }
        self.expr(&call.func, scope)?;
        for argument in &arguments.args {
            self.expr(argument, scope)?;
        }
        for keyword in &arguments.keywords {
            self.expr(&keyword.value, scope)?;
        }
        self.at(call);
        let n_args = (arguments.args.len() + arguments.keywords.len()) as u32;
        if arguments.keywords.is_empty() {
            return self.emit(Op::Call(n_args)).map(drop);
        }
        let names = arguments.keywords.iter().filter_map(|keyword| keyword.arg.as_ref()).map(|name| name.as_str().into());
        self.keywords.push(names.collect());
        let names = self.keywords.len() as u32 - 1;
        self.emit(Op::CallNamed { n_args, names }).map(drop)
    }

    fn call_spread(&mut self, call: &'a ExprCall, scope: usize) -> Done {
        self.expr(&call.func, scope)?;
        self.emit(Op::List(0))?;
        self.spread(&call.arguments.args, scope, false)?;
        self.emit(Op::Dict(0))?;
        for keyword in &call.arguments.keywords {
            match &keyword.arg {
                Some(name) => {
                    self.text(name.as_str())?;
                    self.expr(&keyword.value, scope)?;
                    self.emit(Op::Insert(1))?;
                }
                None => {
                    self.expr(&keyword.value, scope)?;
                    self.emit(Op::Update { keywords: true })?;
                }
            }
        }
        self.at(call);
        self.emit(Op::CallSpread).map(drop)
    }
}
