//! Statements: each leaves the stack as it found it.

use std::sync::Arc;

use ruff_python_ast::{Expr, Stmt, StmtAssert, StmtIf, StmtImport, StmtImportFrom, StmtReturn};

use super::{Compiler, Done};
use crate::code::Op;
use crate::library::Module;

impl<'a> Compiler<'a> {
    /// Compiles statements in the scope of the function that is open.
    pub(super) fn body(&mut self, body: &'a [Stmt]) -> Done {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &'a Stmt) -> Done {
        let scope = self.frame().scope;
        self.at(stmt);
        match stmt {
            Stmt::FunctionDef(def) => self.function(def, scope),
            Stmt::Return(value) => self.return_stmt(value, scope),
            Stmt::Assign(assign) => {
                self.expr(&assign.value, scope)?;
                for (idx, target) in assign.targets.iter().enumerate() {
                    if idx + 1 < assign.targets.len() {
                        self.emit(Op::Duplicate)?;
                    }
                    self.store(target, scope)?;
                }
                Ok(())
            }
            Stmt::AugAssign(assign) => self.augmented(assign, scope),
            Stmt::AnnAssign(assign) => match &assign.value {
                Some(value) => {
                    self.expr(value, scope)?;
                    self.store(&assign.target, scope)
                }
                None => Ok(()),
            },
            Stmt::Expr(expr) => self.expr_stmt(&expr.value, scope),
            Stmt::If(choice) => self.if_stmt(choice, scope),
            Stmt::For(stmt) => self.for_loop(stmt, scope),
            Stmt::While(stmt) => self.while_loop(stmt, scope),
            Stmt::Break(_) => self.break_loop(stmt),
            Stmt::Continue(_) => self.continue_loop(stmt),
            Stmt::Try(stmt) => self.try_stmt(stmt, scope),
            Stmt::Raise(raise) => self.raise(raise, scope),
            Stmt::Assert(assert) => self.assert(assert, scope),
            Stmt::Delete(delete) => delete.targets.iter().try_for_each(|target| self.delete(target, scope)),
            Stmt::Import(import) => self.import(import, scope),
            Stmt::ImportFrom(import) => self.import_from(import, scope),
            Stmt::Pass(_) | Stmt::Global(_) => Ok(()),
            Stmt::Nonlocal(_) => self.check_in_function(stmt, "nonlocal"),
            Stmt::ClassDef(_) => self.refuse(stmt, "class is not part of the subset; use functions with dicts or tuples"),
            Stmt::With(_) => self.refuse(stmt, "with is not part of the subset"),
            Stmt::Match(_) => self.refuse(stmt, "match is not part of the subset; use if and elif"),
            Stmt::TypeAlias(_) => self.refuse(stmt, "type aliases are not part of the subset"),
            Stmt::IpyEscapeCommand(_) => self.refuse(stmt, "escape commands are not part of the subset"),
        }
    }

    fn expr_stmt(&mut self, expr: &'a Expr, scope: usize) -> Done {
        if expr.is_literal_expr() && !expr.is_bytes_literal_expr() {
            return Ok(());
        }
        self.expr(expr, scope)?;
        self.emit(Op::Pop).map(drop)
    }

    fn return_stmt(&mut self, stmt: &'a StmtReturn, scope: usize) -> Done {
        self.check_in_function(stmt, "return")?;
        match &stmt.value {
            Some(value) => self.expr(value, scope)?,
            None => drop(self.emit(Op::None)?),
        }
        self.leave_blocks(0)?;
        self.emit(Op::Return).map(drop)
    }

    fn if_stmt(&mut self, choice: &'a StmtIf, scope: usize) -> Done {
        let mut to_end = Vec::new();
        self.expr(&choice.test, scope)?;
        let mut to_next = Some(self.emit(Op::JumpIfFalse(0))?);
        self.body(&choice.body)?;
        for clause in &choice.elif_else_clauses {
            to_end.push(self.emit(Op::Jump(0))?);
            if let Some(jump) = to_next.take() {
                self.land(jump);
            }
            if let Some(test) = &clause.test {
                self.at(test);
                self.expr(test, scope)?;
                to_next = Some(self.emit(Op::JumpIfFalse(0))?);
            }
            self.body(&clause.body)?;
        }
        to_end.into_iter().chain(to_next).for_each(|jump| self.land(jump));
        Ok(())
    }

    fn assert(&mut self, assert: &'a StmtAssert, scope: usize) -> Done {
        self.expr(&assert.test, scope)?;
        let to_end = self.emit(Op::JumpIfTrue(0))?;
        if let Some(message) = &assert.msg {
            self.expr(message, scope)?;
        }
        self.at(assert);
        self.emit(Op::AssertFailed { message: assert.msg.is_some() })?;
        self.land(to_end);
        Ok(())
    }

    fn import(&mut self, import: &'a StmtImport, scope: usize) -> Done {
        for alias in &import.names {
            let module = self.module(import, alias.name.as_str())?;
            self.modules.push(module);
            let place = self.modules.len() as u32 - 1;
            self.emit(Op::Module(place))?;
            self.store_name(alias.asname.as_ref().unwrap_or(&alias.name).as_str(), scope)?;
        }
        Ok(())
    }

    fn import_from(&mut self, import: &'a StmtImportFrom, scope: usize) -> Done {
        let Some(name) = import.module.as_ref().filter(|_| import.level == 0) else {
            return self.refuse(import, "relative imports are not part of the subset");
        };
        let module = self.module(import, name.as_str())?;
        for alias in &import.names {
            if alias.name.as_str() == "*" {
                if scope != 0 {
                    return self.refuse(import, "import * is only allowed outside of functions");
                }
                self.imports.push(Vec::new());
                let place = self.imports.len() - 1;
                self.stars.push((Arc::clone(&module), place));
                self.emit(Op::ImportNames(place as u32))?;
                continue;
            }
            let Some(entry) = module.get(alias.name.as_str()) else {
                return self.refuse(import, format!("the module {name} has no {}", alias.name.as_str()));
            };
            self.entries.push(entry.clone());
            let place = self.entries.len() as u32 - 1;
            self.emit(Op::Imported(place))?;
            self.store_name(alias.asname.as_ref().unwrap_or(&alias.name).as_str(), scope)?;
        }
        Ok(())
    }

    fn module(&self, import: &impl ruff_text_size::Ranged, name: &str) -> Done<Arc<Module>> {
        match self.library.module(name) {
            Some(module) => Ok(Arc::clone(module)),
            None => {
                let known = self.library.module_names().join(", ");
                self.refuse(import, format!("there is no module {name}; programs may import {known}"))
            }
        }
    }

    /// Yields everything that the value on the stack iterates over.
    pub(super) fn yield_from(&mut self) -> Done {
        self.emit(Op::Iterate)?;
        let start = self.here();
        let to_end = self.emit(Op::Delegate(0))?;
        self.emit(Op::Yield)?;
        self.emit(Op::Pop)?;
        self.emit(Op::Jump(start))?;
        self.land(to_end);
        Ok(())
    }
}
