//! Comprehensions: loops in the frame of the function around them, and generators with a frame of their own.

use ruff_python_ast::{Comprehension, Expr, ExprDictComp, ExprGenerator, ExprListComp, ExprSetComp};

use super::{Compiler, Done, Place};
use crate::code::Op;

/// What happens with each element.
#[derive(Clone, Copy)]
enum Element<'a> {
    Append(&'a Expr),
    Add(&'a Expr),
    Insert(&'a Expr, &'a Expr),
    Yield(&'a Expr),
}

impl<'a> Compiler<'a> {
    pub(super) fn list_comp(&mut self, comp: &'a ExprListComp, scope: usize) -> Done {
        let inner = self.scopes.at(comp);
        self.emit(Op::List(0))?;
        self.inline(&comp.generators, Element::Append(&comp.elt), scope, inner)
    }

    pub(super) fn set_comp(&mut self, comp: &'a ExprSetComp, scope: usize) -> Done {
        let inner = self.scopes.at(comp);
        self.emit(Op::Set(0))?;
        self.inline(&comp.generators, Element::Add(&comp.elt), scope, inner)
    }

    pub(super) fn dict_comp(&mut self, comp: &'a ExprDictComp, scope: usize) -> Done {
        let inner = self.scopes.at(comp);
        let Some(key) = &comp.key else {
            return self.refuse(comp, "** inside of a comprehension is not part of the subset");
        };
        self.emit(Op::Dict(0))?;
        self.inline(&comp.generators, Element::Insert(key, &comp.value), scope, inner)
    }

    /// A generator is a function of its own, called at once with the first iterator.
    pub(super) fn generator(&mut self, comp: &'a ExprGenerator, scope: usize) -> Done {
        let inner = self.scopes.at(comp);
        let Some(first) = comp.generators.first() else { return Ok(()) };
        self.at(comp);
        self.open_frame(inner, "<generator>");
        self.frame().code.is_generator = true;
        let iterator = self.new_local("iterator");
        self.frame().code.params.n_positional = 1;
        self.frame().code.params.names.push("iterator".into());
        self.emit(Op::Local(iterator))?;
        self.loops(&comp.generators, 0, Element::Yield(&comp.elt), inner)?;
        self.emit(Op::None)?;
        self.emit(Op::Return)?;
        self.make_function(0)?;
        self.expr(&first.iter, scope)?;
        self.emit(Op::Iterate)?;
        self.emit(Op::Call(1)).map(drop)
    }

    fn inline(&mut self, generators: &'a [Comprehension], element: Element<'a>, scope: usize, inner: usize) -> Done {
        let Some(first) = generators.first() else { return Ok(()) };
        self.expr(&first.iter, scope)?;
        self.emit(Op::Iterate)?;
        self.fresh_names(inner)?;
        self.loops(generators, 0, element, inner)
    }

    /// Names of a comprehension start without a value each time it runs.
    fn fresh_names(&mut self, inner: usize) -> Done {
        let bound = self.scopes.all[inner].bound.clone();
        for name in bound {
            if let Place::Shared(place) = self.bind_slot(inner, name) {
                self.emit(Op::RenewShared(place))?;
            }
        }
        Ok(())
    }

    /// The loops from this one inwards; the iterator of this one is on the stack.
    fn loops(&mut self, generators: &'a [Comprehension], depth: usize, element: Element<'a>, inner: usize) -> Done {
        let generator = &generators[depth];
        if generator.is_async {
            return self.refuse(generator, "async is not part of the subset");
        }
        let start = self.here();
        let to_end = self.emit(Op::ForEach(0))?;
        self.store(&generator.target, inner)?;
        for test in &generator.ifs {
            self.expr(test, inner)?;
            self.emit(Op::JumpIfFalse(start))?;
        }
        match generators.get(depth + 1) {
            Some(next) => {
                self.expr(&next.iter, inner)?;
                self.emit(Op::Iterate)?;
                self.loops(generators, depth + 1, element, inner)?;
            }
            None => self.element(element, generators.len() as u32, inner)?,
        }
        self.emit(Op::Jump(start))?;
        self.land(to_end);
        Ok(())
    }

    /// One element, with the result so many iterators below it.
    fn element(&mut self, element: Element<'a>, n_iterators: u32, inner: usize) -> Done {
        match element {
            Element::Append(value) => {
                self.expr(value, inner)?;
                self.emit(Op::Append(n_iterators + 1))?;
            }
            Element::Add(value) => {
                self.expr(value, inner)?;
                self.emit(Op::Add(n_iterators + 1))?;
            }
            Element::Insert(key, value) => {
                self.expr(key, inner)?;
                self.expr(value, inner)?;
                self.emit(Op::Insert(n_iterators + 1))?;
            }
            Element::Yield(value) => {
                self.expr(value, inner)?;
                self.emit(Op::Yield)?;
                self.emit(Op::Pop)?;
            }
        }
        Ok(())
    }
}
