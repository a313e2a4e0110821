//! Methods of numbers.

use super::{MethodName, no_attribute};
use crate::context::{Context, check_count};
use crate::fault::Fault;
use crate::number::Number;
use crate::value::Value;

impl Context {
    pub(super) fn number_method(&mut self, receiver: &Value, name: MethodName, arguments: &[Value]) -> Result<Value, Fault> {
        check_count(name.text(), arguments.len(), 0, 0)?;
        match (Number::of(receiver), name) {
            (Some(Number::Int(number)), MethodName::BitLength) => {
                Ok(Value::Int(i64::from(64 - number.unsigned_abs().leading_zeros())))
            }
            (Some(Number::Int(number)), MethodName::BitCount) => Ok(Value::Int(i64::from(number.unsigned_abs().count_ones()))),
            (Some(Number::Big(number)), MethodName::BitLength) => Ok(Value::Int(number.bits() as i64)),
            (Some(Number::Big(number)), MethodName::BitCount) => {
                self.meter.spend(number.bits() / 64)?;
                Ok(Value::Int(number.magnitude().count_ones() as i64))
            }
            (Some(Number::Float(number)), MethodName::IsInteger) => Ok(Value::Bool(number.is_finite() && number.fract() == 0.0)),
            _ => Err(no_attribute(receiver, name.text())),
        }
    }
}
