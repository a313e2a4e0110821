//! Which name means what: a first walk over the tree that finds, for every function and comprehension, the names it binds and
//! those it takes from outside.
//!
//! Comprehensions other than generators run in the frame of the function around them, with slots of their own.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Comprehension, ExceptHandler, Expr, Parameters, Stmt};

/// What kind of place names live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeKind {
    Module,
    Function,
    /// A comprehension inside of a function's frame.
    Inline,
}

/// A place where names live.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub(super) kind: ScopeKind,
    pub(super) parent: usize,
    /// The module or function in whose frame its names are.
    pub(super) owner: usize,
    /// Bound names in the order of their first binding.
    pub(super) bound: Vec<&'a str>,
    bound_set: HashSet<&'a str>,
    globals: HashSet<&'a str>,
    nonlocals: HashSet<&'a str>,
    used: Vec<&'a str>,
    /// Bound names that functions inside take from here.
    pub(super) captured: HashSet<&'a str>,
    /// Names that a function takes from functions around it, with the scope that binds each.
    pub(super) free: Vec<(&'a str, usize)>,
    pub(super) is_generator: bool,
}

/// All scopes of a program; the first is the module.
#[derive(Debug)]
pub(super) struct Scopes<'a> {
    pub(super) all: Vec<Scope<'a>>,
    /// Scopes by the address of the node that opens them.
    by_node: HashMap<usize, usize>,
}

/// Where a name is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In a scope of the same frame.
    Here(usize),
    /// In a scope of another function.
    Outside(usize),
    /// In the module, or nowhere.
    Global,
}

impl<'a> Scopes<'a> {
    /// Walks over a module.
    pub(super) fn of(body: &'a [Stmt]) -> Self {
        let mut walker = Walker { scopes: Scopes { all: Vec::new(), by_node: HashMap::new() }, current: 0 };
        walker.scopes.open(ScopeKind::Module, 0);
        for stmt in body {
            walker.visit_stmt(stmt);
        }
        let mut scopes = walker.scopes;
        scopes.resolve();
        scopes
    }

    /// The scope that a node opens.
    pub(super) fn at<T>(&self, node: &T) -> usize {
        self.by_node.get(&address(node)).copied().unwrap_or(0)
    }

    /// Where a name is found from this scope.
    pub(super) fn find(&self, scope: usize, name: &str) -> Found {
        let owner = self.all[scope].owner;
        let mut current = scope;
        loop {
            let here = &self.all[current];
            if here.kind == ScopeKind::Module || here.globals.contains(name) {
                return Found::Global;
            }
            if here.bound_set.contains(name) && !here.nonlocals.contains(name) {
                return if here.owner == owner { Found::Here(current) } else { Found::Outside(current) };
            }
            current = here.parent;
        }
    }

    /// The name among `nonlocal` declarations that no function around it binds.
    pub(super) fn unbound_nonlocal(&self, scope: usize) -> Option<&'a str> {
        self.all[scope].nonlocals.iter().copied().find(|name| self.find(scope, name) == Found::Global)
    }

    fn open(&mut self, kind: ScopeKind, parent: usize) -> usize {
        let id = self.all.len();
        let owner = if kind == ScopeKind::Inline { self.all[parent].owner } else { id };
        self.all.push(Scope {
            kind,
            parent,
            owner,
            bound: Vec::new(),
            bound_set: HashSet::new(),
            globals: HashSet::new(),
            nonlocals: HashSet::new(),
            used: Vec::new(),
            captured: HashSet::new(),
            free: Vec::new(),
            is_generator: false,
        });
        id
    }

    fn bind(&mut self, scope: usize, name: &'a str) {
        if self.all[scope].bound_set.insert(name) {
            self.all[scope].bound.push(name);
        }
    }

    fn resolve(&mut self) {
        for scope in 0..self.all.len() {
            // Around a function of the module there is none whose names it could take.
            if self.all[self.all[scope].owner].parent == 0 {
                continue;
            }
            let used = std::mem::take(&mut self.all[scope].used);
            let mut seen = HashSet::new();
            for name in used.into_iter().filter(|name| seen.insert(*name)) {
                if let Found::Outside(binder) = self.find(scope, name) {
                    self.capture(scope, name, binder);
                }
            }
        }
    }

    /// Marks a name as shared, and passes it down through every function on the way.
    fn capture(&mut self, scope: usize, name: &'a str, binder: usize) {
        self.all[binder].captured.insert(name);
        let end = self.all[binder].owner;
        let mut function = self.all[scope].owner;
        while function != end {
            let free = &mut self.all[function].free;
            if !free.contains(&(name, binder)) {
                free.push((name, binder));
            }
            function = self.all[self.all[function].parent].owner;
        }
    }
}

fn address<T>(node: &T) -> usize {
    std::ptr::from_ref(node) as usize
}

struct Walker<'a> {
    scopes: Scopes<'a>,
    current: usize,
}

impl<'a> Walker<'a> {
    fn bind(&mut self, name: &'a str) {
        self.scopes.bind(self.current, name);
        self.use_name(name);
    }

    fn use_name(&mut self, name: &'a str) {
        self.scopes.all[self.current].used.push(name);
    }

    fn inside(&mut self, kind: ScopeKind, node: usize, walk: impl FnOnce(&mut Self)) {
        let outer = self.current;
        let scope = self.scopes.open(kind, outer);
        self.scopes.by_node.insert(node, scope);
        self.current = scope;
        walk(self);
        self.current = outer;
    }

    fn defaults(&mut self, parameters: &'a Parameters) {
        for default in parameters.iter_non_variadic_params().filter_map(|param| param.default.as_deref()) {
            self.visit_expr(default);
        }
    }

    fn params(&mut self, parameters: &'a Parameters) {
        for param in parameters.iter() {
            self.scopes.bind(self.current, param.name().as_str());
        }
    }

    fn comprehension(&mut self, node: usize, is_generator: bool, elements: &[&'a Expr], generators: &'a [Comprehension]) {
        let Some((first, rest)) = generators.split_first() else { return };
        self.visit_expr(&first.iter);
        let kind = if is_generator { ScopeKind::Function } else { ScopeKind::Inline };
        self.inside(kind, node, |walker| {
            walker.scopes.all[walker.current].is_generator = is_generator;
            walker.visit_expr(&first.target);
            first.ifs.iter().for_each(|test| walker.visit_expr(test));
            for generator in rest {
                walker.visit_expr(&generator.iter);
                walker.visit_expr(&generator.target);
                generator.ifs.iter().for_each(|test| walker.visit_expr(test));
            }
            elements.iter().for_each(|element| walker.visit_expr(element));
        });
    }

    /// A `:=` inside of a comprehension binds in the function around it.
    fn bind_walrus(&mut self, name: &'a str) {
        let mut scope = self.current;
        while self.scopes.all[scope].kind == ScopeKind::Inline {
            scope = self.scopes.all[scope].parent;
        }
        self.scopes.bind(scope, name);
        self.use_name(name);
    }
}

impl<'a> Visitor<'a> for Walker<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => {
                self.bind(def.name.as_str());
                self.defaults(&def.parameters);
                self.inside(ScopeKind::Function, address(def), |walker| {
                    walker.params(&def.parameters);
                    def.body.iter().for_each(|stmt| walker.visit_stmt(stmt));
                });
            }
            Stmt::Global(global) => {
                let scope = self.current;
                for name in &global.names {
                    self.scopes.all[scope].globals.insert(name.as_str());
                    self.scopes.bind(0, name.as_str());
                }
            }
            Stmt::Nonlocal(nonlocal) => {
                let scope = self.current;
                for name in &nonlocal.names {
                    self.scopes.all[scope].nonlocals.insert(name.as_str());
                    self.use_name(name.as_str());
                }
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.bind(alias.asname.as_ref().unwrap_or(&alias.name).as_str());
                }
            }
            Stmt::ImportFrom(import) => {
                for alias in import.names.iter().filter(|alias| alias.name.as_str() != "*") {
                    self.bind(alias.asname.as_ref().unwrap_or(&alias.name).as_str());
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.visit_expr(value);
                }
                self.visit_expr(&assign.target);
            }
            Stmt::Try(attempt) => {
                for handler in &attempt.handlers {
                    let ExceptHandler::ExceptHandler(handler) = handler;
                    if let Some(name) = &handler.name {
                        self.bind(name.as_str());
                    }
                }
                walk_stmt(self, stmt);
            }
            _ => walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx.is_load() => self.use_name(name.id.as_str()),
            Expr::Name(name) => self.bind(name.id.as_str()),
            Expr::Named(named) => {
                self.visit_expr(&named.value);
                if let Expr::Name(name) = &*named.target {
                    self.bind_walrus(name.id.as_str());
                }
            }
            Expr::Lambda(lambda) => {
                if let Some(parameters) = &lambda.parameters {
                    self.defaults(parameters);
                }
                self.inside(ScopeKind::Function, address(lambda), |walker| {
                    if let Some(parameters) = &lambda.parameters {
                        walker.params(parameters);
                    }
                    walker.visit_expr(&lambda.body);
                });
            }
            Expr::Yield(_) | Expr::YieldFrom(_) => {
                let owner = self.scopes.all[self.current].owner;
                self.scopes.all[owner].is_generator = true;
                walk_expr(self, expr);
            }
            Expr::ListComp(comp) => self.comprehension(address(comp), false, &[&comp.elt], &comp.generators),
            Expr::SetComp(comp) => self.comprehension(address(comp), false, &[&comp.elt], &comp.generators),
            Expr::Generator(comp) => self.comprehension(address(comp), true, &[&comp.elt], &comp.generators),
            Expr::DictComp(comp) => {
                let key = comp.key.as_deref();
                let elements: Vec<_> = key.into_iter().chain([&*comp.value]).collect();
                self.comprehension(address(comp), false, &elements, &comp.generators);
            }
            _ => walk_expr(self, expr),
        }
    }
}
