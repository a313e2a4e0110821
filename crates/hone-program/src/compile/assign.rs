//! Assignments: names, unpacking, subscripts, augmented ones, and `del`.

use ruff_python_ast::{Expr, StmtAugAssign};

use super::scope::ScopeKind;
use super::{Compiler, Done, Place};
use crate::code::Op;

impl<'a> Compiler<'a> {
    /// Stores the top of the stack in a target.
    pub(super) fn store(&mut self, target: &'a Expr, scope: usize) -> Done {
        match target {
            Expr::Name(name) => self.store_name(name.id.as_str(), scope),
            Expr::Tuple(tuple) => self.unpack(target, &tuple.elts, scope),
            Expr::List(list) => self.unpack(target, &list.elts, scope),
            Expr::Subscript(subscript) => {
                self.expr(&subscript.value, scope)?;
                let is_slice = self.index(&subscript.slice, scope)?;
                self.at(target);
                self.emit(if is_slice { Op::StoreSlice } else { Op::StoreSubscript }).map(drop)
            }
            Expr::Attribute(_) => {
                self.refuse(target, "assigning to an attribute is not part of the subset; use a dict or a tuple")
            }
            other => self.refuse(other, "this cannot be assigned to"),
        }
    }

    pub(super) fn store_name(&mut self, name: &'a str, scope: usize) -> Done {
        let op = match self.place(scope, name) {
            Place::Local(place) => Op::StoreLocal(place),
            Place::Shared(place) => Op::StoreShared(place),
            Place::Global(place) => Op::StoreGlobal(place),
            Place::Builtin(_) | Place::Undefined(_) => Op::StoreGlobal(self.new_global(name)),
        };
        self.emit(op).map(drop)
    }

    fn unpack(&mut self, target: &'a Expr, targets: &'a [Expr], scope: usize) -> Done {
        self.at(target);
        match targets.iter().position(Expr::is_starred_expr) {
            None => drop(self.emit(Op::Unpack(targets.len() as u32))?),
            Some(before) => {
                let after = targets.len() - before - 1;
                let (Ok(before), Ok(after)) = (u16::try_from(before), u16::try_from(after)) else {
                    return self.refuse(target, "too many targets");
                };
                self.emit(Op::UnpackStar { before, after })?;
            }
        }
        for target in targets {
            match target {
                Expr::Starred(starred) => self.store(&starred.value, scope)?,
                target => self.store(target, scope)?,
            }
        }
        Ok(())
    }

    pub(super) fn augmented(&mut self, assign: &'a StmtAugAssign, scope: usize) -> Done {
        match &*assign.target {
            Expr::Name(name) => {
                self.load(scope, name.id.as_str())?;
                self.in_place(assign, scope)?;
                self.store_name(name.id.as_str(), scope)
            }
            Expr::Subscript(subscript) => {
                self.expr(&subscript.value, scope)?;
                if self.index(&subscript.slice, scope)? {
                    return self.refuse(&*assign.target, "an augmented assignment to a slice is not part of the subset");
                }
                self.emit(Op::DuplicateTwo)?;
                self.emit(Op::Subscript)?;
                self.in_place(assign, scope)?;
                self.emit(Op::RotateThree)?;
                self.emit(Op::StoreSubscript).map(drop)
            }
            target => self.store(target, scope),
        }
    }

    fn in_place(&mut self, assign: &'a StmtAugAssign, scope: usize) -> Done {
        self.expr(&assign.value, scope)?;
        self.at(assign);
        let op = self.operator(&assign.target, assign.op)?;
        self.emit(Op::InPlace(op)).map(drop)
    }

    pub(super) fn delete(&mut self, target: &'a Expr, scope: usize) -> Done {
        match target {
            Expr::Name(name) => match self.place(scope, name.id.as_str()) {
                Place::Local(place) => self.emit(Op::DeleteLocal(place)).map(drop),
                Place::Global(place) => self.emit(Op::DeleteGlobal(place)).map(drop),
                Place::Shared(place) => {
                    self.emit(Op::Shared(place))?;
                    self.emit(Op::Pop)?;
                    self.emit(Op::Constant(u32::MAX))?;
                    self.emit(Op::StoreShared(place)).map(drop)
                }
                Place::Builtin(_) | Place::Undefined(_) => self.load(scope, name.id.as_str()),
            },
            Expr::Subscript(subscript) => {
                self.expr(&subscript.value, scope)?;
                let is_slice = self.index(&subscript.slice, scope)?;
                self.at(target);
                self.emit(if is_slice { Op::DeleteSlice } else { Op::DeleteSubscript }).map(drop)
            }
            Expr::Tuple(tuple) => tuple.elts.iter().try_for_each(|target| self.delete(target, scope)),
            other => self.refuse(other, "this cannot be deleted"),
        }
    }

    /// The scope in which a `:=` binds: that of the function around the comprehensions.
    pub(super) fn walrus_scope(&self, scope: usize) -> usize {
        let mut scope = scope;
        while self.scopes.all[scope].kind == ScopeKind::Inline {
            scope = self.scopes.all[scope].parent;
        }
        scope
    }
}
