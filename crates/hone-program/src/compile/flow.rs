//! Loops, exceptions and the ways out of them.

use ruff_python_ast::{ExceptHandler, ExceptHandlerExceptHandler, Stmt, StmtFor, StmtRaise, StmtTry, StmtWhile};
use ruff_text_size::Ranged;

use super::{Block, Compiler, Done, Loop};
use crate::code::{CATCH_ALL, Op};
use crate::library::Entry;

impl<'a> Compiler<'a> {
    pub(super) fn for_loop(&mut self, stmt: &'a StmtFor, scope: usize) -> Done {
        if stmt.is_async {
            return self.refuse(stmt, "async is not part of the subset");
        }
        self.expr(&stmt.iter, scope)?;
        self.at(&*stmt.iter);
        self.emit(Op::Iterate)?;
        let start = self.here();
        let to_end = self.emit(Op::ForEach(0))?;
        self.store(&stmt.target, scope)?;
        self.in_loop(start, true, &stmt.body, &stmt.orelse, to_end)
    }

    pub(super) fn while_loop(&mut self, stmt: &'a StmtWhile, scope: usize) -> Done {
        let start = self.here();
        self.expr(&stmt.test, scope)?;
        let to_end = self.emit(Op::JumpIfFalse(0))?;
        self.in_loop(start, false, &stmt.body, &stmt.orelse, to_end)
    }

    fn in_loop(&mut self, start: u32, has_iterator: bool, body: &'a [Stmt], orelse: &'a [Stmt], to_end: usize) -> Done {
        let frame = self.frame();
        frame.loops.push(Loop { start, has_iterator, breaks: Vec::new() });
        let number = frame.loops.len() - 1;
        frame.blocks.push(Block::Loop(number));
        self.body(body)?;
        self.emit(Op::Jump(start))?;
        self.frame().blocks.pop();
        self.land(to_end);
        self.body(orelse)?;
        let breaks = self.frame().loops.pop().map(|ended| ended.breaks).unwrap_or_default();
        breaks.into_iter().for_each(|jump| self.land(jump));
        Ok(())
    }

    pub(super) fn break_loop(&mut self, stmt: &impl Ranged) -> Done {
        let number = self.leave_to_loop(stmt, "break")?;
        if self.frame().loops[number].has_iterator {
            self.emit(Op::Pop)?;
        }
        let jump = self.emit(Op::Jump(0))?;
        self.frame().loops[number].breaks.push(jump);
        Ok(())
    }

    pub(super) fn continue_loop(&mut self, stmt: &impl Ranged) -> Done {
        let number = self.leave_to_loop(stmt, "continue")?;
        let start = self.frame().loops[number].start;
        self.emit(Op::Jump(start)).map(drop)
    }

    fn leave_to_loop(&mut self, stmt: &impl Ranged, what: &str) -> Done<usize> {
        let blocks = &self.frame().blocks;
        let found = blocks.iter().enumerate().rev().find_map(|(depth, block)| match block {
            Block::Loop(number) => Some((depth, *number)),
            _ => None,
        });
        let Some((depth, number)) = found else { return self.refuse(stmt, format!("'{what}' outside of a loop")) };
        self.leave_blocks(depth + 1)?;
        Ok(number)
    }

    /// Leaves all blocks from this depth on, innermost first; what they do on every way out is done here.
    pub(super) fn leave_blocks(&mut self, depth: usize) -> Done {
        let left = self.frame().blocks.split_off(depth);
        for (idx, block) in left.iter().enumerate().rev() {
            match block {
                Block::Loop(_) | Block::Handler(_) => {}
                Block::Try => drop(self.emit(Op::EndTry)?),
                Block::Finally(body) => {
                    self.emit(Op::EndTry)?;
                    self.frame().blocks.extend_from_slice(&left[..idx]);
                    self.body(body)?;
                    self.frame().blocks.truncate(depth);
                }
            }
        }
        self.frame().blocks.extend(left);
        Ok(())
    }

    pub(super) fn try_stmt(&mut self, stmt: &'a StmtTry, scope: usize) -> Done {
        if stmt.is_star {
            return self.refuse(stmt, "except* is not part of the subset");
        }
        if stmt.finalbody.is_empty() {
            return self.try_except(stmt, scope);
        }
        let to_handler = self.emit(Op::Try(0))?;
        self.frame().blocks.push(Block::Finally(&stmt.finalbody));
        if stmt.handlers.is_empty() {
            self.body(&stmt.body)?;
            self.body(&stmt.orelse)?;
        } else {
            self.try_except(stmt, scope)?;
        }
        self.frame().blocks.pop();
        self.emit(Op::EndTry)?;
        self.body(&stmt.finalbody)?;
        let to_end = self.emit(Op::Jump(0))?;
        self.land(to_handler);
        self.body(&stmt.finalbody)?;
        self.emit(Op::Raise)?;
        self.land(to_end);
        Ok(())
    }

    fn try_except(&mut self, stmt: &'a StmtTry, scope: usize) -> Done {
        let to_handlers = self.emit(Op::Try(0))?;
        self.frame().blocks.push(Block::Try);
        self.body(&stmt.body)?;
        self.frame().blocks.pop();
        self.emit(Op::EndTry)?;
        self.body(&stmt.orelse)?;
        let mut to_end = vec![self.emit(Op::Jump(0))?];
        self.land(to_handlers);
        for ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
            let to_next = self.handler(handler, scope)?;
            to_end.push(self.emit(Op::Jump(0))?);
            self.land(to_next);
        }
        self.emit(Op::Raise)?;
        to_end.into_iter().for_each(|jump| self.land(jump));
        Ok(())
    }

    /// One handler: the exception is on the stack, and stays there when the handler does not catch it.
    /// Returns the jump that passes it by.
    fn handler(&mut self, handler: &'a ExceptHandlerExceptHandler, scope: usize) -> Done<usize> {
        self.at(handler);
        match &handler.type_ {
            Some(kind) => self.expr(kind, scope)?,
            None => {
                self.entries.push(Entry::Type(CATCH_ALL));
                let place = self.entries.len() as u32 - 1;
                self.emit(Op::Imported(place))?;
            }
        }
        self.emit(Op::Catches)?;
        let to_next = self.emit(Op::JumpIfFalse(0))?;
        if let Some(name) = &handler.name {
            self.emit(Op::Duplicate)?;
            self.store_name(name.as_str(), scope)?;
        }
        let slot = self.new_local("exception");
        self.emit(Op::StoreLocal(slot))?;
        self.frame().blocks.push(Block::Handler(slot));
        self.body(&handler.body)?;
        self.frame().blocks.pop();
        Ok(to_next)
    }

    pub(super) fn raise(&mut self, stmt: &'a StmtRaise, scope: usize) -> Done {
        match &stmt.exc {
            Some(exception) => self.expr(exception, scope)?,
            None => {
                let handled = self.frame().blocks.iter().rev().find_map(|block| match block {
                    Block::Handler(slot) => Some(*slot),
                    _ => None,
                });
                let Some(slot) = handled else {
                    return self.refuse(stmt, "'raise' without an exception outside of 'except'");
                };
                self.emit(Op::Local(slot))?;
            }
        }
        self.at(stmt);
        self.emit(Op::Raise).map(drop)
    }
}
