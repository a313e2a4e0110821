//! From the syntax tree to operations: names become slots, blocks become jumps.
//!
//! What the subset does not have is refused here, by its name and line.

mod assign;
mod call;
mod comprehend;
mod expr;
mod flow;
mod function;
mod scope;
mod stmt;

use std::collections::HashMap;
use std::sync::Arc;

use ruff_python_ast::{ModModule, Stmt};
use ruff_text_size::{Ranged, TextSize};

use crate::code::{Code, Compiled, Const, Name, Op};
use crate::fault::{Error, ErrorKind};
use crate::library::{Constant, Entry, Library, Module};
use crate::method::MethodName;
use crate::standard::BUILTINS;
use scope::{Found, Scopes};

/// Operations that a program may have: `finally` blocks are copied to every way out, so text can grow.
const OPS_MAX: usize = 1 << 20;

/// Compiles a module. `lines` are the offsets at which its lines start.
pub(crate) fn compile(module: &ModModule, lines: &[u32], library: &Arc<Library>) -> Result<Compiled, Error> {
    let mut compiler = Compiler::new(&module.body, lines, library);
    compiler.find_stars(&module.body);
    compiler.open_frame(0, "<module>");
    compiler.body(&module.body)?;
    compiler.emit(Op::None)?;
    compiler.emit(Op::Return)?;
    let main = compiler.close_frame();
    compiler.codes[0] = main;
    Ok(compiler.finish(&module.body))
}

/// Where a name of a frame lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Local(u32),
    Shared(u32),
    Global(u32),
    Builtin(u32),
    Undefined(u32),
}

/// Something around a statement that a jump out of it has to leave.
#[derive(Clone, Copy, Debug)]
enum Block<'a> {
    /// A loop, by its number among the loops of the frame.
    Loop(usize),
    /// A `try` whose faults are caught.
    Try,
    /// A `try` with statements that run on every way out.
    Finally(&'a [Stmt]),
    /// A handler that keeps its exception in this slot.
    Handler(u32),
}

/// A loop that is being compiled.
#[derive(Debug)]
struct Loop {
    start: u32,
    has_iterator: bool,
    breaks: Vec<usize>,
}

/// A function that is being compiled.
struct Frame<'a> {
    code: Code,
    /// The slots of names, by the scope that binds them.
    places: HashMap<(usize, &'a str), Place>,
    scope: usize,
    blocks: Vec<Block<'a>>,
    loops: Vec<Loop>,
}

struct Compiler<'a> {
    scopes: Scopes<'a>,
    library: &'a Arc<Library>,
    lines: &'a [u32],
    line: u32,
    n_ops: usize,
    frames: Vec<Frame<'a>>,
    codes: Vec<Code>,
    constants: Vec<Const>,
    texts: HashMap<String, u32>,
    names: Vec<Name>,
    name_places: HashMap<&'a str, u32>,
    keywords: Vec<Box<[Box<str>]>>,
    globals: Vec<Box<str>>,
    global_places: HashMap<Box<str>, u32>,
    builtins: Vec<Entry>,
    builtin_places: HashMap<&'a str, u32>,
    /// Imported modules of which all names are taken, with the place of their import.
    stars: Vec<(Arc<Module>, usize)>,
    star_names: Vec<Arc<Module>>,
    imports: Vec<Vec<(u32, Entry)>>,
    entries: Vec<Entry>,
    modules: Vec<Arc<Module>>,
}

type Done<T = ()> = Result<T, Error>;

impl<'a> Compiler<'a> {
    fn new(body: &'a [Stmt], lines: &'a [u32], library: &'a Arc<Library>) -> Self {
        Self {
            scopes: Scopes::of(body),
            library,
            lines,
            line: 1,
            n_ops: 0,
            frames: Vec::new(),
            codes: vec![Code::default()],
            constants: Vec::new(),
            texts: HashMap::new(),
            names: Vec::new(),
            name_places: HashMap::new(),
            keywords: Vec::new(),
            globals: Vec::new(),
            global_places: HashMap::new(),
            builtins: Vec::new(),
            builtin_places: HashMap::new(),
            stars: Vec::new(),
            star_names: Vec::new(),
            imports: Vec::new(),
            entries: Vec::new(),
            modules: Vec::new(),
        }
    }

    /// Modules whose names are all imported somewhere: their names are globals, wherever the import stands.
    fn find_stars(&mut self, body: &[Stmt]) {
        for stmt in body {
            if let Stmt::ImportFrom(import) = stmt
                && import.names.iter().any(|alias| alias.name.as_str() == "*")
                && let Some(module) = import.module.as_ref().and_then(|name| self.library.module(name.as_str()))
            {
                self.star_names.push(Arc::clone(module));
            }
        }
    }

    fn finish(mut self, body: &[Stmt]) -> Compiled {
        for (module, import) in &self.stars {
            for (place, name) in self.globals.iter().enumerate() {
                if let Some(entry) = module.get(name) {
                    self.imports[*import].push((place as u32, entry.clone()));
                }
            }
        }
        let functions = body.iter().filter_map(|stmt| match stmt {
            Stmt::FunctionDef(def) => Some(def.name.as_str().into()),
            _ => None,
        });
        Compiled {
            functions: functions.collect(),
            codes: self.codes,
            constants: self.constants,
            names: self.names,
            keywords: self.keywords,
            globals: self.globals,
            global_places: self.global_places,
            builtins: self.builtins,
            imports: self.imports,
            entries: self.entries,
            modules: self.modules,
            library: Arc::clone(self.library),
        }
    }

    fn frame(&mut self) -> &mut Frame<'a> {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// Notes the line that the next operations come from.
    fn at(&mut self, node: &impl Ranged) {
        self.line = self.line_of(node.start());
    }

    fn line_of(&self, offset: TextSize) -> u32 {
        let offset = u32::from(offset);
        let here = self.line as usize;
        let starts_here = self.lines.get(here - 1).is_some_and(|&start| start <= offset);
        if starts_here && self.lines.get(here).is_none_or(|&next| offset < next) {
            return self.line;
        }
        self.lines.partition_point(|&start| start <= offset).max(1) as u32
    }

    /// Refuses what the subset does not have.
    fn refuse<T>(&self, node: &impl Ranged, words: impl Into<String>) -> Done<T> {
        Err(Error { kind: ErrorKind::Syntax, line: self.line_of(node.start()), message: words.into() })
    }

    fn emit(&mut self, op: Op) -> Done<usize> {
        self.n_ops += 1;
        if self.n_ops > OPS_MAX {
            let message = format!("the program is longer than {OPS_MAX} operations");
            return Err(Error { kind: ErrorKind::Syntax, line: self.line, message });
        }
        let line = self.line;
        let code = &mut self.frame().code;
        code.ops.push(op);
        code.lines.push(line);
        Ok(code.ops.len() - 1)
    }

    /// Where the next operation will stand.
    fn here(&mut self) -> u32 {
        self.frame().code.ops.len() as u32
    }

    /// Lets a jump that was written before lead to here.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        let op = &mut self.frame().code.ops[jump];
        *op = match *op {
            Op::Jump(_) => Op::Jump(here),
            Op::JumpIfFalse(_) => Op::JumpIfFalse(here),
            Op::JumpIfTrue(_) => Op::JumpIfTrue(here),
            Op::JumpIfFalseKeep(_) => Op::JumpIfFalseKeep(here),
            Op::JumpIfTrueKeep(_) => Op::JumpIfTrueKeep(here),
            Op::ForEach(_) => Op::ForEach(here),
            Op::Delegate(_) => Op::Delegate(here),
            Op::Try(_) => Op::Try(here),
            other => other,
        };
    }

    fn constant(&mut self, constant: Const) -> Done {
        self.constants.push(constant);
        let place = self.constants.len() as u32 - 1;
        self.emit(Op::Constant(place)).map(drop)
    }

    fn text(&mut self, text: &str) -> Done {
        let place = match self.texts.get(text) {
            Some(place) => *place,
            None => {
                self.constants.push(Const::Plain(Constant::Str(text.to_owned())));
                let place = self.constants.len() as u32 - 1;
                self.texts.insert(text.to_owned(), place);
                place
            }
        };
        self.emit(Op::Constant(place)).map(drop)
    }

    /// The place of a name that attributes are asked for by.
    fn name(&mut self, text: &'a str) -> u32 {
        if let Some(place) = self.name_places.get(text) {
            return *place;
        }
        self.names.push(Name { text: text.into(), method: MethodName::named(text) });
        let place = self.names.len() as u32 - 1;
        self.name_places.insert(text, place);
        place
    }

    /// Where a name lives, seen from a scope.
    fn place(&mut self, scope: usize, name: &'a str) -> Place {
        match self.scopes.find(scope, name) {
            Found::Here(binder) => match self.frame().places.get(&(binder, name)) {
                Some(place) => *place,
                None => self.bind_slot(binder, name),
            },
            Found::Outside(binder) => {
                let owner = self.frame().scope;
                let free = &self.scopes.all[owner].free;
                let place = free.iter().position(|entry| *entry == (name, binder)).unwrap_or(0);
                Place::Shared(place as u32)
            }
            Found::Global => self.global(name),
        }
    }

    /// Gives a bound name of this frame its slot.
    fn bind_slot(&mut self, binder: usize, name: &'a str) -> Place {
        let is_captured = self.scopes.all[binder].captured.contains(name);
        let place = if is_captured { self.new_shared(None) } else { Place::Local(self.new_local(name)) };
        self.frame().places.insert((binder, name), place);
        place
    }

    fn new_local(&mut self, name: &str) -> u32 {
        let code = &mut self.frame().code;
        code.local_names.push(name.into());
        code.n_locals += 1;
        code.n_locals as u32 - 1
    }

    /// A shared variable of this frame; those it captured come before its own.
    fn new_shared(&mut self, param: Option<u32>) -> Place {
        let code = &mut self.frame().code;
        code.shared.push(param);
        Place::Shared((code.captures.len() + code.shared.len()) as u32 - 1)
    }

    fn global(&mut self, name: &'a str) -> Place {
        if let Some(place) = self.global_places.get(name) {
            return Place::Global(*place);
        }
        let is_bound =
            self.scopes.all[0].bound.contains(&name) || self.star_names.iter().any(|module| module.get(name).is_some());
        if is_bound {
            return Place::Global(self.new_global(name));
        }
        if let Some(place) = self.builtin_places.get(name) {
            return Place::Builtin(*place);
        }
        match self.library.module(BUILTINS).and_then(|module| module.get(name)) {
            Some(entry) => {
                self.builtins.push(entry.clone());
                let place = self.builtins.len() as u32 - 1;
                self.builtin_places.insert(name, place);
                Place::Builtin(place)
            }
            None => Place::Undefined(self.name(name)),
        }
    }

    fn new_global(&mut self, name: &str) -> u32 {
        let place = self.globals.len() as u32;
        self.globals.push(name.into());
        self.global_places.insert(name.into(), place);
        place
    }
}
