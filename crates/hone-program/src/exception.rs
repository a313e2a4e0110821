//! Faults as exceptions of the program, and back.

use crate::context::Context;
use crate::fault::Fault;
use crate::kind::Type;
use crate::value::Value;

impl Context {
    /// The exception that a handler sees for a fault.
    pub(crate) fn exception_of(&self, fault: &Fault) -> Result<Value, Fault> {
        match fault.exception() {
            Some(exception) => Ok(exception.clone()),
            None => {
                let kind = Type::of_error(fault.kind()).unwrap_or(Type::Exception);
                let words = self.meter.str(fault.message())?;
                self.meter.exception(kind, vec![words])
            }
        }
    }

    /// The fault that raising a value makes.
    pub(crate) fn raise(&mut self, value: &Value) -> Fault {
        let exception = match value {
            Value::Type(kind) if kind.is_exception() => match self.meter.exception(*kind, Vec::new()) {
                Ok(exception) => exception,
                Err(fault) => return fault,
            },
            Value::Exception(_) => value.clone(),
            other => {
                return Fault::type_error(format!("exceptions must derive from BaseException, not '{}'", other.type_name()));
            }
        };
        let Value::Exception(inner) = &exception else { return Fault::type_error("this cannot be raised") };
        let words = match self.text_of(&exception) {
            Ok(words) => words,
            Err(fault) => return fault,
        };
        let kind = inner.kind.error_kind();
        let message = match (kind, words.is_empty()) {
            (crate::fault::ErrorKind::Raised, true) => inner.kind.name().to_owned(),
            (crate::fault::ErrorKind::Raised, false) => format!("{}: {words}", inner.kind.name()),
            _ => words,
        };
        Fault::new(kind, message).with_exception(exception)
    }

    /// Whether an exception is of a type, or of one of a tuple of types.
    pub(crate) fn catches(&self, exception: &Value, kind: &Value) -> Result<bool, Fault> {
        if let Value::Type(kind) = kind
            && kind.is_exception()
        {
            return Ok(Type::of(exception).is_a(*kind));
        }
        let Some(kinds) = kind.as_tuple() else {
            return Err(Fault::type_error("catching needs a type of exception, or a tuple of them"));
        };
        for idx in 0..kinds.len() {
            self.meter.spend(1)?;
            if let Value::Type(kind) = kinds.get(idx, &self.meter)?
                && Type::of(exception).is_a(kind)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
