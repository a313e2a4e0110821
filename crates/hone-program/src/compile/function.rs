//! Functions: frames of their own, parameters, defaults and what they capture.

use ruff_python_ast::{ExprLambda, Parameters, StmtFunctionDef};
use ruff_text_size::Ranged;

use super::{Compiler, Done, Frame, Place};
use crate::code::{Code, Op, Params};

impl<'a> Compiler<'a> {
    /// Begins the code of a function.
    pub(super) fn open_frame(&mut self, scope: usize, name: &str) {
        let captures = self.captures(scope);
        let code = Code { name: name.into(), captures, ..Code::default() };
        let places = std::collections::HashMap::new();
        self.frames.push(Frame { code, places, scope, blocks: Vec::new(), loops: Vec::new() });
    }

    /// Ends the code of a function.
    pub(super) fn close_frame(&mut self) -> Code {
        self.frames.pop().map(|frame| frame.code).unwrap_or_default()
    }

    /// Where the function around finds what this one captures.
    fn captures(&mut self, scope: usize) -> Vec<u32> {
        if self.frames.is_empty() {
            return Vec::new();
        }
        let free = self.scopes.all[scope].free.clone();
        let owner = self.frame().scope;
        let mut captures = Vec::with_capacity(free.len());
        for (name, binder) in free {
            let place = if self.scopes.all[binder].owner == owner {
                match self.frame().places.get(&(binder, name)).copied() {
                    Some(place) => place,
                    None => self.bind_slot(binder, name),
                }
            } else {
                let position = self.scopes.all[owner].free.iter().position(|entry| *entry == (name, binder));
                Place::Shared(position.unwrap_or(0) as u32)
            };
            captures.push(if let Place::Shared(place) = place { place } else { 0 });
        }
        captures
    }

    /// Ends the code of a function and makes a value of it, with so many defaults on the stack.
    pub(super) fn make_function(&mut self, n_defaults: u32) -> Done {
        let code = self.close_frame();
        self.codes.push(code);
        let code = self.codes.len() as u32 - 1;
        self.emit(Op::Function { code, n_defaults }).map(drop)
    }

    pub(super) fn function(&mut self, def: &'a StmtFunctionDef, scope: usize) -> Done {
        if def.is_async {
            return self.refuse(def, "async is not part of the subset");
        }
        if def.type_params.is_some() {
            return self.refuse(def, "type parameters are not part of the subset");
        }
        for decorator in &def.decorator_list {
            self.expr(&decorator.expression, scope)?;
        }
        let n_defaults = self.defaults(&def.parameters, scope)?;
        let inner = self.scopes.at(def);
        if let Some(name) = self.scopes.unbound_nonlocal(inner) {
            return self.refuse(def, format!("nonlocal {name}: no function around this one has the name"));
        }
        self.open_frame(inner, def.name.as_str());
        self.params(&def.parameters, inner);
        self.frame().code.is_generator = self.scopes.all[inner].is_generator;
        self.body(&def.body)?;
        self.emit(Op::None)?;
        self.emit(Op::Return)?;
        self.at(def);
        self.make_function(n_defaults)?;
        for _ in &def.decorator_list {
            self.emit(Op::Call(1))?;
        }
        self.store_name(def.name.as_str(), scope)
    }

    pub(super) fn lambda(&mut self, lambda: &'a ExprLambda, scope: usize) -> Done {
        let n_defaults = match &lambda.parameters {
            Some(parameters) => self.defaults(parameters, scope)?,
            None => 0,
        };
        let inner = self.scopes.at(lambda);
        self.open_frame(inner, "<lambda>");
        if let Some(parameters) = &lambda.parameters {
            self.params(parameters, inner);
        }
        self.frame().code.is_generator = self.scopes.all[inner].is_generator;
        self.expr(&lambda.body, inner)?;
        self.emit(Op::Return)?;
        self.make_function(n_defaults)
    }

    /// Pushes the defaults: those of positional parameters, then one for each by keyword only.
    fn defaults(&mut self, parameters: &'a Parameters, scope: usize) -> Done<u32> {
        let mut n_defaults = 0;
        for param in parameters.posonlyargs.iter().chain(&parameters.args) {
            if let Some(default) = &param.default {
                self.expr(default, scope)?;
                n_defaults += 1;
            }
        }
        for param in &parameters.kwonlyargs {
            match &param.default {
                Some(default) => self.expr(default, scope)?,
                None => drop(self.emit(Op::Constant(u32::MAX))?),
            }
            n_defaults += 1;
        }
        Ok(n_defaults)
    }

    fn params(&mut self, parameters: &'a Parameters, inner: usize) {
        let positional = || parameters.posonlyargs.iter().chain(&parameters.args);
        let all: Vec<&'a str> = positional()
            .chain(&parameters.kwonlyargs)
            .map(|param| param.parameter.name.as_str())
            .chain(parameters.vararg.iter().map(|param| param.name.as_str()))
            .chain(parameters.kwarg.iter().map(|param| param.name.as_str()))
            .collect();
        self.frame().code.params = Params {
            names: all.iter().map(|name| (*name).into()).collect(),
            n_positional_only: parameters.posonlyargs.len(),
            n_positional: positional().count(),
            n_keyword_only: parameters.kwonlyargs.len(),
            has_rest: parameters.vararg.is_some(),
            has_keywords: parameters.kwarg.is_some(),
            n_positional_defaults: positional().filter(|param| param.default.is_some()).count(),
        };
        self.frame().code.n_locals = all.len();
        self.frame().code.local_names = all.iter().map(|name| (*name).into()).collect();
        for (place, name) in all.into_iter().enumerate() {
            let place = if self.scopes.all[inner].captured.contains(name) {
                self.new_shared(Some(place as u32))
            } else {
                Place::Local(place as u32)
            };
            self.frame().places.insert((inner, name), place);
        }
    }

    pub(super) fn check_in_function(&self, node: &impl Ranged, what: &str) -> Done {
        if self.frames.len() > 1 { Ok(()) } else { self.refuse(node, format!("'{what}' outside of a function")) }
    }
}
