//! Expressions: each leaves one value on the stack.

use ruff_python_ast::{
    BoolOp, CmpOp, ConversionFlag, Expr, ExprBoolOp, ExprCompare, ExprDict, ExprFString, ExprIf, ExprSubscript, ExprUnaryOp,
    FStringPart, InterpolatedElement, InterpolatedStringElement, InterpolatedStringElements, Number, Operator, UnaryOp,
};

use super::{Compiler, Done, Place};
use crate::code::{BinaryOp, Const, Conversion, Op};
use crate::library::Constant;
use crate::order::Comparison;

impl<'a> Compiler<'a> {
    /// Compiles an expression in a scope.
    pub(super) fn expr(&mut self, expr: &'a Expr, scope: usize) -> Done {
        match expr {
            Expr::Name(name) => {
                self.at(name);
                self.load(scope, name.id.as_str())
            }
            Expr::NumberLiteral(literal) => self.number(expr, &literal.value, false),
            Expr::StringLiteral(literal) => self.text(literal.value.to_str()),
            Expr::BooleanLiteral(literal) => self.emit(if literal.value { Op::True } else { Op::False }).map(drop),
            Expr::NoneLiteral(_) => self.emit(Op::None).map(drop),
            Expr::EllipsisLiteral(_) => self.constant(Const::Ellipsis),
            Expr::FString(fstring) => self.fstring(fstring, scope),
            Expr::Tuple(tuple) => self.elements(&tuple.elts, scope, Op::Tuple),
            Expr::List(list) => self.elements(&list.elts, scope, Op::List),
            Expr::Set(set) => self.elements(&set.elts, scope, Op::Set),
            Expr::Dict(dict) => self.dict(dict, scope),
            Expr::BinOp(binary) => {
                self.expr(&binary.left, scope)?;
                self.expr(&binary.right, scope)?;
                self.at(expr);
                let op = self.operator(expr, binary.op)?;
                self.emit(Op::Binary(op)).map(drop)
            }
            Expr::UnaryOp(unary) => self.unary(unary, scope),
            Expr::BoolOp(boolean) => self.boolean(boolean, scope),
            Expr::Compare(compare) => self.compare(compare, scope),
            Expr::If(choice) => self.choice(choice, scope),
            Expr::Call(call) => self.call(call, scope),
            Expr::Attribute(attribute) => {
                self.expr(&attribute.value, scope)?;
                self.at(&attribute.attr);
                let name = self.name(attribute.attr.as_str());
                self.emit(Op::Attribute(name)).map(drop)
            }
            Expr::Subscript(subscript) => self.subscript(subscript, scope),
            Expr::Lambda(lambda) => self.lambda(lambda, scope),
            Expr::ListComp(comp) => self.list_comp(comp, scope),
            Expr::SetComp(comp) => self.set_comp(comp, scope),
            Expr::DictComp(comp) => self.dict_comp(comp, scope),
            Expr::Generator(comp) => self.generator(comp, scope),
            Expr::Named(named) => {
                self.expr(&named.value, scope)?;
                self.emit(Op::Duplicate)?;
                self.store(&named.target, self.walrus_scope(scope))
            }
            Expr::Yield(value) => {
                match &value.value {
                    Some(value) => self.expr(value, scope)?,
                    None => drop(self.emit(Op::None)?),
                }
                self.check_in_function(expr, "yield")?;
                self.emit(Op::Yield).map(drop)
            }
            Expr::YieldFrom(value) => {
                self.check_in_function(expr, "yield from")?;
                self.expr(&value.value, scope)?;
                self.yield_from()
            }
            Expr::Starred(_) => self.refuse(expr, "a starred expression cannot stand here"),
            Expr::Slice(_) => self.refuse(expr, "a slice inside of a tuple index is not part of the subset"),
            Expr::BytesLiteral(_) => self.refuse(expr, "bytes are not part of the subset; use a str or a list of ints"),
            Expr::Await(_) => self.refuse(expr, "await is not part of the subset"),
            Expr::TString(_) => self.refuse(expr, "template strings are not part of the subset; use an f-string"),
            Expr::IpyEscapeCommand(_) => self.refuse(expr, "escape commands are not part of the subset"),
        }
    }

    pub(super) fn load(&mut self, scope: usize, name: &'a str) -> Done {
        let op = match self.place(scope, name) {
            Place::Local(place) => Op::Local(place),
            Place::Shared(place) => Op::Shared(place),
            Place::Global(place) => Op::Global(place),
            Place::Builtin(place) => Op::Builtin(place),
            Place::Undefined(name) => Op::Undefined(name),
        };
        self.emit(op).map(drop)
    }

    fn number(&mut self, expr: &'a Expr, number: &Number, negative: bool) -> Done {
        let sign = if negative { -1 } else { 1 };
        match number {
            Number::Int(int) => match int.as_i64() {
                Some(small) => match i32::try_from(small * sign) {
                    Ok(tiny) => self.emit(Op::Int(tiny)).map(drop),
                    Err(_) => self.constant(Const::Plain(Constant::Int(small * sign))),
                },
                None => {
                    let text = int.to_string().replace('_', "");
                    let (digits, radix) = match text.get(..2) {
                        Some("0x" | "0X") => (&text[2..], 16),
                        Some("0b" | "0B") => (&text[2..], 2),
                        Some("0o" | "0O") => (&text[2..], 8),
                        _ => (&*text, 10),
                    };
                    if digits.len() > crate::number::DIGITS_MAX {
                        let words = format!("a number of more than {} digits", crate::number::DIGITS_MAX);
                        return self.refuse(expr, words);
                    }
                    match num_bigint::BigInt::parse_bytes(digits.as_bytes(), radix) {
                        Some(big) => self.constant(Const::Big(big * sign)),
                        None => self.refuse(expr, "this number cannot be read"),
                    }
                }
            },
            Number::Float(float) => self.constant(Const::Plain(Constant::Float(float * sign as f64))),
            Number::Complex { .. } => self.refuse(expr, "complex numbers are not part of the subset"),
        }
    }

    pub(super) fn operator(&mut self, expr: &'a Expr, operator: Operator) -> Done<BinaryOp> {
        Ok(match operator {
            Operator::Add => BinaryOp::Add,
            Operator::Sub => BinaryOp::Subtract,
            Operator::Mult => BinaryOp::Multiply,
            Operator::Div => BinaryOp::Divide,
            Operator::FloorDiv => BinaryOp::FloorDivide,
            Operator::Mod => BinaryOp::Modulo,
            Operator::Pow => BinaryOp::Power,
            Operator::LShift => BinaryOp::ShiftLeft,
            Operator::RShift => BinaryOp::ShiftRight,
            Operator::BitOr => BinaryOp::Or,
            Operator::BitXor => BinaryOp::Xor,
            Operator::BitAnd => BinaryOp::And,
            Operator::MatMult => return self.refuse(expr, "the operator @ is not part of the subset"),
        })
    }

    fn unary(&mut self, unary: &'a ExprUnaryOp, scope: usize) -> Done {
        if let (UnaryOp::USub, Expr::NumberLiteral(literal)) = (unary.op, &*unary.operand) {
            return self.number(&unary.operand, &literal.value, true);
        }
        self.expr(&unary.operand, scope)?;
        self.at(unary);
        let op = match unary.op {
            UnaryOp::Not => Op::Not,
            UnaryOp::USub => Op::Negate,
            UnaryOp::UAdd => Op::Plus,
            UnaryOp::Invert => Op::Invert,
        };
        self.emit(op).map(drop)
    }

    fn boolean(&mut self, boolean: &'a ExprBoolOp, scope: usize) -> Done {
        let mut jumps = Vec::new();
        for (idx, value) in boolean.values.iter().enumerate() {
            self.expr(value, scope)?;
            if idx + 1 < boolean.values.len() {
                let op = match boolean.op {
                    BoolOp::And => Op::JumpIfFalseKeep(0),
                    BoolOp::Or => Op::JumpIfTrueKeep(0),
                };
                jumps.push(self.emit(op)?);
            }
        }
        jumps.into_iter().for_each(|jump| self.land(jump));
        Ok(())
    }

    fn compare(&mut self, compare: &'a ExprCompare, scope: usize) -> Done {
        self.expr(&compare.left, scope)?;
        let last = compare.ops.len() - 1;
        let mut jumps = Vec::new();
        for (idx, (op, right)) in compare.ops.iter().zip(&compare.comparators).enumerate() {
            self.expr(right, scope)?;
            self.at(right);
            if idx < last {
                self.emit(Op::Duplicate)?;
                self.emit(Op::RotateThree)?;
            }
            self.emit(comparison(*op))?;
            if idx < last {
                jumps.push(self.emit(Op::JumpIfFalseKeep(0))?);
            }
        }
        if !jumps.is_empty() {
            let end = self.emit(Op::Jump(0))?;
            jumps.into_iter().for_each(|jump| self.land(jump));
            self.emit(Op::RotateTwo)?;
            self.emit(Op::Pop)?;
            self.land(end);
        }
        Ok(())
    }

    fn choice(&mut self, choice: &'a ExprIf, scope: usize) -> Done {
        self.expr(&choice.test, scope)?;
        let to_else = self.emit(Op::JumpIfFalse(0))?;
        self.expr(&choice.body, scope)?;
        let to_end = self.emit(Op::Jump(0))?;
        self.land(to_else);
        self.expr(&choice.orelse, scope)?;
        self.land(to_end);
        Ok(())
    }

    /// The elements of a display; starred ones are spread.
    fn elements(&mut self, elements: &'a [Expr], scope: usize, build: fn(u32) -> Op) -> Done {
        if !elements.iter().any(Expr::is_starred_expr) {
            for element in elements {
                self.expr(element, scope)?;
            }
            return self.emit(build(elements.len() as u32)).map(drop);
        }
        let is_set = build(0) == Op::Set(0);
        self.emit(if is_set { Op::Set(0) } else { Op::List(0) })?;
        self.spread(elements, scope, is_set)?;
        if build(0) == Op::Tuple(0) {
            self.emit(Op::ListToTuple)?;
        }
        Ok(())
    }

    /// Adds elements, starred ones among them, to the list or set on top.
    pub(super) fn spread(&mut self, elements: &'a [Expr], scope: usize, is_set: bool) -> Done {
        for element in elements {
            match element {
                Expr::Starred(starred) => {
                    self.expr(&starred.value, scope)?;
                    self.emit(Op::Extend)?;
                }
                element => {
                    self.expr(element, scope)?;
                    self.emit(if is_set { Op::Add(1) } else { Op::Append(1) })?;
                }
            }
        }
        Ok(())
    }

    fn dict(&mut self, dict: &'a ExprDict, scope: usize) -> Done {
        self.emit(Op::Dict(0))?;
        for item in &dict.items {
            match &item.key {
                Some(key) => {
                    self.expr(key, scope)?;
                    self.expr(&item.value, scope)?;
                    self.emit(Op::Insert(1))?;
                }
                None => {
                    self.expr(&item.value, scope)?;
                    self.emit(Op::Update { keywords: false })?;
                }
            }
        }
        Ok(())
    }

    fn subscript(&mut self, subscript: &'a ExprSubscript, scope: usize) -> Done {
        self.expr(&subscript.value, scope)?;
        let is_slice = self.index(&subscript.slice, scope)?;
        self.at(subscript);
        self.emit(if is_slice { Op::Slice } else { Op::Subscript }).map(drop)
    }

    /// An index, or the three parts of a slice; says which.
    pub(super) fn index(&mut self, index: &'a Expr, scope: usize) -> Done<bool> {
        let Expr::Slice(slice) = index else {
            self.expr(index, scope)?;
            return Ok(false);
        };
        for part in [&slice.lower, &slice.upper, &slice.step] {
            match part {
                Some(part) => self.expr(part, scope)?,
                None => drop(self.emit(Op::None)?),
            }
        }
        Ok(true)
    }

    fn fstring(&mut self, fstring: &'a ExprFString, scope: usize) -> Done {
        let mut n_parts = 0;
        for part in fstring.value.as_slice() {
            match part {
                FStringPart::Literal(literal) => {
                    self.text(literal.as_str())?;
                    n_parts += 1;
                }
                FStringPart::FString(fstring) => n_parts += self.interpolated(&fstring.elements, scope)?,
            }
        }
        self.emit(Op::Join(n_parts)).map(drop)
    }

    fn interpolated(&mut self, elements: &'a InterpolatedStringElements, scope: usize) -> Done<u32> {
        let mut n_parts = 0;
        for element in elements {
            match element {
                InterpolatedStringElement::Literal(literal) => self.text(&literal.value)?,
                InterpolatedStringElement::Interpolation(element) => {
                    if let Some(debug) = &element.debug_text {
                        self.text(&format!("{}{}{}", debug.leading(), debug.expression(), debug.trailing()))?;
                        n_parts += 1;
                    }
                    self.interpolation(element, scope)?;
                }
            }
            n_parts += 1;
        }
        Ok(n_parts)
    }

    fn interpolation(&mut self, element: &'a InterpolatedElement, scope: usize) -> Done {
        self.expr(&element.expression, scope)?;
        match &element.format_spec {
            Some(spec) => {
                let n_parts = self.interpolated(&spec.elements, scope)?;
                self.emit(Op::Join(n_parts))?;
            }
            None => drop(self.emit(Op::None)?),
        }
        self.at(element);
        let conversion = match element.conversion {
            ConversionFlag::Str => Conversion::Str,
            ConversionFlag::Repr | ConversionFlag::Ascii => Conversion::Repr,
            ConversionFlag::None if element.debug_text.is_some() && element.format_spec.is_none() => Conversion::Repr,
            ConversionFlag::None => Conversion::None,
        };
        self.emit(Op::Format { conversion }).map(drop)
    }
}

fn comparison(op: CmpOp) -> Op {
    match op {
        CmpOp::Eq => Op::Equal,
        CmpOp::NotEq => Op::NotEqual,
        CmpOp::Lt => Op::Compare(Comparison::Less),
        CmpOp::LtE => Op::Compare(Comparison::LessEqual),
        CmpOp::Gt => Op::Compare(Comparison::Greater),
        CmpOp::GtE => Op::Compare(Comparison::GreaterEqual),
        CmpOp::Is => Op::Is,
        CmpOp::IsNot => Op::IsNot,
        CmpOp::In => Op::In,
        CmpOp::NotIn => Op::NotIn,
    }
}
