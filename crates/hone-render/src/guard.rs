//! Compiles a chat template so that nothing in it grows unpaid.
//!
//! The parsed template is copied, and on the way every operand of an operation whose cost grows with it (`~`, `+`, `*`,
//! comparisons, filters, methods, slices, literals of lists) is passed through a filter that weighs it. Text between the
//! tags is printed like a value, so that it is paid for too, and lazy lists become plain ones, which can be weighed. What is
//! printed stays the same. A few things on which the library panics are done here or refused.
//! Knows nothing of prices: see `budget.rs`.

use crate::budget::{BARE, SETTLE, SLICE, TIMES, WEIGH, WEIGH_ITEMS, refuse};
use minijinja::Error;
use minijinja::machinery::ast::{
    BinOp, BinOpKind, Call, CallArg, CallBlock, Compare, CompareOp, Const, Do, EmitExpr, Expr, Filter, FilterBlock, ForLoop,
    GetAttr, GetItem, IfCond, IfExpr, List, Macro, Map, Set, SetBlock, Spanned, Stmt, Template, Test, Tuple, UnaryOp,
    UnaryOpKind, Var, WithBlock,
};
use minijinja::machinery::{CodeGenerator, Instructions, Span, Token, parse, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;

/// Most tokens in one tag. The parser and the compiler go as deep as one expression is long.
const TAG_TOKENS_MAX: usize = 1000;
/// Most tags.
const TAGS_MAX: usize = 4000;
/// Most `elif`, each of which goes one level deeper.
const ELIFS_MAX: usize = 200;
const NAME: &str = "chat template";

/// Filters that look at one item only: weighing the whole list for them would cost more than they do.
const CHEAP_FILTERS: &[&str] = &["count", "d", "default", "first", "last", "length"];

/// Filters that look at every item, but not into it.
const COUNTING_FILTERS: &[&str] = &["list", "reverse"];

#[cfg(test)]
thread_local! {
    static N_COMPILED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How often this thread has compiled a template.
#[cfg(test)]
pub(crate) fn n_compiled() -> usize {
    N_COMPILED.get()
}

/// Checks and compiles a template.
pub(crate) fn compile(source: &str) -> Result<Instructions<'_>, Error> {
    let mut syntax = SyntaxConfig::builder();
    let syntax = syntax.trim_blocks(true).lstrip_blocks(true).build()?;
    check_sizes(source, &syntax)?;
    #[cfg(test)]
    N_COMPILED.set(N_COMPILED.get() + 1);
    let parsed = parse(source, NAME, syntax)?;
    let mut compiler = CodeGenerator::new(NAME, source);
    compiler.compile_stmt(&stmt(&parsed)?);
    Ok(compiler.finish().0)
}

fn check_sizes(source: &str, syntax: &SyntaxConfig) -> Result<(), Error> {
    let (mut n_tags, mut n_tokens, mut n_elifs) = (0, 0, 0);
    for token in tokenize(source, false, syntax.clone()) {
        match token?.0 {
            Token::VariableStart | Token::BlockStart => {
                n_tags += 1;
                n_tokens = 0;
            }
            Token::Ident("elif") => n_elifs += 1,
            _ => n_tokens += 1,
        }
        if n_tokens > TAG_TOKENS_MAX || n_tags > TAGS_MAX || n_elifs > ELIFS_MAX {
            let limits = format!("{TAGS_MAX} tags, {ELIFS_MAX} times `elif`, or a tag of more than {TAG_TOKENS_MAX} words");
            return Err(refuse(format!("it has more than {limits}")));
        }
    }
    Ok(())
}

fn stmts<'a>(body: &[Stmt<'a>]) -> Result<Vec<Stmt<'a>>, Error> {
    body.iter().map(stmt).collect()
}

/// The body of a block that is entered and left as a whole. The library jumps out of a loop without undoing the blocks
/// in between, and then panics or prints to the wrong place.
fn closed<'a>(body: &[Stmt<'a>]) -> Result<Vec<Stmt<'a>>, Error> {
    if jumps_out(body) {
        return Err(refuse(
            "`break` and `continue` need a loop around them, with no `with`, `set`, `filter`, `macro` or `call` between",
        ));
    }
    stmts(body)
}

/// Whether a jump leads out of a body. Blocks that are closed themselves are checked when they are copied.
fn jumps_out(body: &[Stmt<'_>]) -> bool {
    body.iter().any(|node| match node {
        Stmt::Continue(_) | Stmt::Break(_) => true,
        Stmt::IfCond(s) => jumps_out(&s.true_body) || jumps_out(&s.false_body),
        Stmt::ForLoop(s) => jumps_out(&s.else_body),
        _ => false,
    })
}

fn stmt<'a>(node: &Stmt<'a>) -> Result<Stmt<'a>, Error> {
    Ok(match node {
        Stmt::Template(s) => Stmt::Template(put(Template { children: closed(&s.children)? }, s.span())),
        Stmt::EmitExpr(s) => Stmt::EmitExpr(put(EmitExpr { expr: expr(&s.expr) }, s.span())),
        Stmt::EmitRaw(s) => {
            let text = Expr::Const(put(Const { value: Value::from(s.raw) }, s.span()));
            Stmt::EmitExpr(put(EmitExpr { expr: text }, s.span()))
        }
        Stmt::ForLoop(s) => {
            let node = ForLoop {
                target: target(&s.target),
                iter: expr(&s.iter),
                filter_expr: s.filter_expr.as_ref().map(expr),
                recursive: s.recursive,
                body: stmts(&s.body)?,
                else_body: stmts(&s.else_body)?,
            };
            Stmt::ForLoop(put(node, s.span()))
        }
        Stmt::IfCond(s) => {
            let (true_body, false_body) = (stmts(&s.true_body)?, stmts(&s.false_body)?);
            Stmt::IfCond(put(IfCond { expr: expr(&s.expr), true_body, false_body }, s.span()))
        }
        Stmt::WithBlock(s) => {
            let assignments = s.assignments.iter().map(|(to, from)| (target(to), expr(from))).collect();
            Stmt::WithBlock(put(WithBlock { assignments, body: closed(&s.body)? }, s.span()))
        }
        Stmt::Set(s) => Stmt::Set(put(Set { target: target(&s.target), expr: expr(&s.expr) }, s.span())),
        Stmt::SetBlock(s) => {
            let filter = s.filter.as_ref().map(expr);
            Stmt::SetBlock(put(SetBlock { target: target(&s.target), filter, body: closed(&s.body)? }, s.span()))
        }
        Stmt::FilterBlock(s) => Stmt::FilterBlock(put(FilterBlock { filter: expr(&s.filter), body: closed(&s.body)? }, s.span())),
        Stmt::Macro(s) => Stmt::Macro(put(macro_decl(s)?, s.span())),
        Stmt::CallBlock(s) => {
            let call = put(call(&s.call), s.call.span());
            let macro_decl = put(macro_decl(&s.macro_decl)?, s.macro_decl.span());
            Stmt::CallBlock(put(CallBlock { call, macro_decl }, s.span()))
        }
        Stmt::Continue(s) => Stmt::Continue(put(minijinja::machinery::ast::Continue, s.span())),
        Stmt::Break(s) => Stmt::Break(put(minijinja::machinery::ast::Break, s.span())),
        Stmt::Do(s) => Stmt::Do(put(Do { call: put(call(&s.call), s.call.span()) }, s.span())),
        Stmt::Block(_) | Stmt::Import(_) | Stmt::FromImport(_) | Stmt::Extends(_) | Stmt::Include(_) => {
            return Err(refuse("it asks for other templates, and there are none"));
        }
        Stmt::AutoEscape(_) => return Err(refuse("`autoescape` has no place in a chat template")),
    })
}

fn macro_decl<'a>(s: &Macro<'a>) -> Result<Macro<'a>, Error> {
    Ok(Macro {
        name: s.name,
        args: s.args.iter().map(target).collect(),
        defaults: s.defaults.iter().map(expr).collect(),
        body: closed(&s.body)?,
    })
}

/// What is assigned to, copied as it is.
fn target<'a>(node: &Expr<'a>) -> Expr<'a> {
    match node {
        Expr::List(e) => Expr::List(put(List { items: e.items.iter().map(target).collect() }, e.span())),
        Expr::Tuple(e) => Expr::Tuple(put(Tuple { items: e.items.iter().map(target).collect() }, e.span())),
        other => expr(other),
    }
}

fn expr<'a>(node: &Expr<'a>) -> Expr<'a> {
    match node {
        Expr::Var(e) => Expr::Var(put(Var { id: e.id }, e.span())),
        Expr::Const(e) => Expr::Const(put(Const { value: e.value.clone() }, e.span())),
        Expr::Slice(e) => {
            let bound = |bound: &Option<Expr<'a>>| CallArg::Pos(option(bound).unwrap_or_else(|| none(e.span())));
            let args = [&e.start, &e.stop, &e.step].map(bound).into();
            Expr::Filter(put(Filter { name: SLICE, expr: Some(expr(&e.expr)), args }, e.span()))
        }
        Expr::UnaryOp(e) => {
            let op = if matches!(e.op, UnaryOpKind::Not) { UnaryOpKind::Not } else { UnaryOpKind::Neg };
            Expr::UnaryOp(put(UnaryOp { op, expr: expr(&e.expr) }, e.span()))
        }
        Expr::BinOp(e) => bin_op(e),
        Expr::Compare(e) => {
            let ops = e.ops.iter().map(|op| CompareOp { op: op.op, expr: compared(&op.expr) }).collect();
            Expr::Compare(put(Compare { expr: compared(&e.expr), ops }, e.span()))
        }
        Expr::IfExpr(e) => {
            let (test_expr, true_expr, false_expr) = (expr(&e.test_expr), expr(&e.true_expr), option(&e.false_expr));
            Expr::IfExpr(put(IfExpr { test_expr, true_expr, false_expr }, e.span()))
        }
        Expr::Filter(e) => {
            let operand = match e.name {
                name if CHEAP_FILTERS.contains(&name) => expr,
                name if COUNTING_FILTERS.contains(&name) => counted,
                _ => weighed,
            };
            let node = Filter { name: e.name, expr: e.expr.as_ref().map(operand), args: args(&e.args, weighed) };
            through(SETTLE, Expr::Filter(put(node, e.span())))
        }
        Expr::Test(e) => Expr::Test(put(Test { name: e.name, expr: expr(&e.expr), args: args(&e.args, weighed) }, e.span())),
        Expr::GetAttr(e) => Expr::GetAttr(put(GetAttr { expr: expr(&e.expr), name: e.name }, e.span())),
        Expr::GetItem(e) => {
            let (of, subscript_expr) = (expr(&e.expr), expr(&e.subscript_expr));
            Expr::GetItem(put(GetItem { expr: of, subscript_expr }, e.span()))
        }
        Expr::Call(e) => Expr::Call(put(call(e), e.span())),
        Expr::List(e) => weigh(Expr::List(put(List { items: e.items.iter().map(expr).collect() }, e.span()))),
        Expr::Tuple(e) => weigh(Expr::Tuple(put(Tuple { items: e.items.iter().map(expr).collect() }, e.span()))),
        Expr::Map(e) => {
            let (keys, values) = (e.keys.iter().map(expr).collect(), e.values.iter().map(expr).collect());
            weigh(Expr::Map(put(Map { keys, values }, e.span())))
        }
    }
}

fn bin_op<'a>(e: &Spanned<BinOp<'a>>) -> Expr<'a> {
    let operand = match e.op {
        BinOpKind::ScAnd | BinOpKind::ScOr => expr,
        BinOpKind::Eq | BinOpKind::Ne | BinOpKind::Lt | BinOpKind::Lte | BinOpKind::Gt | BinOpKind::Gte | BinOpKind::In => {
            compared
        }
        _ => weighed,
    };
    let (left, right) = (operand(&e.left), operand(&e.right));
    match e.op {
        BinOpKind::Mul => Expr::Filter(put(Filter { name: TIMES, expr: Some(left), args: vec![CallArg::Pos(right)] }, e.span())),
        op @ BinOpKind::Add => through(SETTLE, Expr::BinOp(put(BinOp { op, left, right }, e.span()))),
        op => Expr::BinOp(put(BinOp { op, left, right }, e.span())),
    }
}

/// A call. What a method is called on is weighed; arguments are only handed on.
fn call<'a>(e: &Spanned<Call<'a>>) -> Call<'a> {
    let callee = match &e.expr {
        Expr::GetAttr(attr) => Expr::GetAttr(put(GetAttr { expr: weighed(&attr.expr), name: attr.name }, attr.span())),
        other => expr(other),
    };
    let mut args = args(&e.args, expr);
    // The library divides by the number of arguments of `loop.cycle`.
    if matches!(&e.expr, Expr::GetAttr(attr) if attr.name == "cycle") && !args.iter().any(|arg| matches!(arg, CallArg::Pos(_))) {
        args.push(CallArg::Pos(none(e.span())));
    }
    Call { expr: callee, args }
}

fn none<'a>(span: Span) -> Expr<'a> {
    Expr::Const(put(Const { value: Value::from(()) }, span))
}

fn args<'a>(args: &[CallArg<'a>], operand: fn(&Expr<'a>) -> Expr<'a>) -> Vec<CallArg<'a>> {
    let copy = |arg: &CallArg<'a>| match arg {
        CallArg::Pos(e) => CallArg::Pos(operand(e)),
        CallArg::Kwarg(name, e) => CallArg::Kwarg(name, operand(e)),
        CallArg::PosSplat(e) => CallArg::PosSplat(operand(e)),
        CallArg::KwargSplat(e) => CallArg::KwargSplat(operand(e)),
    };
    args.iter().map(copy).collect()
}

fn option<'a>(node: &Option<Expr<'a>>) -> Option<Expr<'a>> {
    node.as_ref().map(expr)
}

fn weighed<'a>(node: &Expr<'a>) -> Expr<'a> {
    weigh(expr(node))
}

/// An operand of a comparison, whose marks are not compared.
fn compared<'a>(node: &Expr<'a>) -> Expr<'a> {
    let span = node.span();
    match weighed(node) {
        constant @ Expr::Const(_) => constant,
        weighed => Expr::Filter(put(Filter { name: BARE, expr: Some(weighed), args: Vec::new() }, span)),
    }
}

fn counted<'a>(node: &Expr<'a>) -> Expr<'a> {
    through(WEIGH_ITEMS, expr(node))
}

fn weigh(node: Expr<'_>) -> Expr<'_> {
    through(WEIGH, node)
}

/// Wraps what is neither constant nor wrapped already.
fn through<'a>(name: &'static str, node: Expr<'a>) -> Expr<'a> {
    match &node {
        Expr::Const(_) => node,
        Expr::Filter(filter) if filter.name == WEIGH || filter.name == name => node,
        _ => {
            let span = node.span();
            Expr::Filter(put(Filter { name, expr: Some(node), args: Vec::new() }, span))
        }
    }
}

fn put<T>(node: T, span: Span) -> Spanned<T> {
    Spanned::new(node, span)
}
