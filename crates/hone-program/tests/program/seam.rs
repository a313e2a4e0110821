//! The seam to a host: packed values that are tuples and sets, natives that call back and build functions.

use std::any::Any;
use std::cmp::Ordering;

use hone_program::{Constant, Context, ErrorKind, Fault, Library, Limits, Meter, Module, Packed, Shape, Value};

/// A tuple of small numbers, a byte each.
#[derive(Debug)]
struct Row(Vec<u8>);

impl Packed for Row {
    fn shape(&self) -> Shape {
        Shape::Tuple
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn item(&self, idx: usize, _: &Meter) -> Result<Value, Fault> {
        Ok(Value::Int(i64::from(self.0[idx])))
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        other.as_any().downcast_ref::<Self>().map(|other| self.0.cmp(&other.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An immutable set of small numbers as bits of a word.
#[derive(Debug)]
struct Bits(u64);

impl Packed for Bits {
    fn shape(&self) -> Shape {
        Shape::FrozenSet
    }

    fn len(&self) -> usize {
        self.0.count_ones() as usize
    }

    fn item(&self, idx: usize, _: &Meter) -> Result<Value, Fault> {
        let mut bits = self.0;
        for _ in 0..idx {
            bits &= bits - 1;
        }
        Ok(Value::Int(i64::from(bits.trailing_zeros())))
    }

    fn bytes(&self) -> usize {
        8
    }

    fn order(&self, _: &dyn Packed) -> Option<Ordering> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn row(items: &[u8]) -> Value {
    Meter::free().pack(Row(items.to_vec())).unwrap()
}

fn tuple(items: &[i64]) -> Value {
    Meter::free().tuple(items.iter().map(|&item| Value::Int(item)).collect()).unwrap()
}

fn set(items: &[i64]) -> Value {
    Meter::free().frozenset(items.iter().map(|&item| Value::Int(item)).collect()).unwrap()
}

fn bits(items: &[u32]) -> Value {
    Meter::free().pack(Bits(items.iter().map(|item| 1 << item).sum())).unwrap()
}

fn equal(a: &Value, b: &Value) -> bool {
    hone_program::equal(a, b, &Meter::free()).unwrap()
}

fn order(a: &Value, b: &Value) -> Ordering {
    hone_program::order(a, b, &Meter::free()).unwrap()
}

#[test]
fn a_packed_tuple_is_the_tuple() {
    let (packed, plain) = (row(&[1, 2, 3]), tuple(&[1, 2, 3]));
    assert!(equal(&packed, &plain) && equal(&plain, &packed) && equal(&packed, &row(&[1, 2, 3])));
    assert!(!equal(&packed, &row(&[1, 2])) && !equal(&packed, &set(&[1, 2, 3])));
    assert_eq!(order(&packed, &tuple(&[1, 2])), Ordering::Greater);
    assert_eq!(order(&row(&[1]), &packed), Ordering::Less);
    assert_eq!(packed.type_name(), "tuple");
    assert_eq!(packed.packed::<Row>().unwrap().0, [1, 2, 3]);
    assert!(packed.packed::<Bits>().is_none());
}

#[test]
fn a_packed_set_is_the_set() {
    let (packed, plain) = (bits(&[3, 1, 9]), set(&[9, 3, 1, 3]));
    assert!(equal(&packed, &plain) && equal(&plain, &packed) && equal(&packed, &bits(&[1, 3, 9])));
    assert_eq!(order(&packed, &set(&[1, 3])), Ordering::Greater);
    let less = |a: &Value, b: &Value| hone_program::less(a, b, &Meter::free()).unwrap();
    assert!(less(&bits(&[1, 3]), &plain) && !less(&packed, &plain) && !less(&bits(&[0]), &plain));
}

#[test]
fn sets_drop_repeated_values_in_either_representation() {
    let meter = Meter::free();
    let mixed = meter.frozenset(vec![row(&[2]), tuple(&[2]), tuple(&[1]), row(&[1]), Value::Int(1), Value::Bool(true)]).unwrap();
    assert!(equal(&mixed, &meter.frozenset(vec![Value::Int(1), tuple(&[1]), tuple(&[2])]).unwrap()));
    assert_eq!(mixed.as_frozenset().unwrap().len(), 3);
}

fn add_one(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    context.spend(1)?;
    let number = arguments[0].as_int().ok_or_else(|| Fault::type_error("needs a whole number"))?;
    Ok(Value::Int(number + 1))
}

fn apply(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let mut results = Vec::new();
    for item in context.collect(&arguments[1])? {
        results.push(context.call(&arguments[0], &[item])?);
    }
    context.meter().tuple(results)
}

fn compose(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    context.function("composed", 1, arguments.to_vec(), |context, captured, arguments| {
        let inner = context.call(&captured[1], arguments)?;
        context.call(&captured[0], &[inner])
    })
}

fn library() -> Library {
    let mut library = Library::new();
    let module = Module::new("demo")
        .function("add_one", &["n"], add_one)
        .function("apply", &["function", "container"], apply)
        .function("compose", &["outer", "inner"], compose)
        .constant("UP", Constant::Tuple(vec![Constant::Int(-1), Constant::Int(0)]));
    library.add(module);
    library.alias("other", "demo");
    library
}

fn native(library: &Library, name: &str) -> Value {
    Value::Native(library.native("demo", name).unwrap().clone())
}

#[test]
fn natives_call_back_and_build_functions_that_equal_only_themselves() {
    let library = library();
    let mut context = Context::new(&Limits::default());
    let (add_one, apply, compose) = (native(&library, "add_one"), native(&library, "apply"), native(&library, "compose"));
    let add_two = context.call(&compose, &[add_one.clone(), add_one.clone()]).unwrap();
    let again = context.call(&compose, &[add_one.clone(), add_one.clone()]).unwrap();
    assert!(equal(&add_two, &add_two) && !equal(&add_two, &again) && equal(&add_one, &native(&library, "add_one")));
    assert_eq!(order(&add_two, &again), Ordering::Less);
    assert_eq!(order(&add_one, &apply), Ordering::Less);
    let result = context.call(&apply, &[add_two.clone(), row(&[1, 2])]).unwrap();
    assert!(equal(&result, &tuple(&[3, 4])));
    assert_eq!((context.n_params(&add_two), context.n_params(&apply)), (Some(1), Some(2)));
}

#[test]
fn a_tower_of_functions_ends_with_a_verdict_and_is_dropped_without_recursion() {
    let library = library();
    let mut context = Context::new(&Limits::default());
    let (add_one, compose) = (native(&library, "add_one"), native(&library, "compose"));
    let mut tower = add_one.clone();
    for _ in 0..100_000 {
        tower = context.call(&compose, &[tower, add_one.clone()]).unwrap();
    }
    assert_eq!(context.call(&tower, &[Value::Int(0)]).unwrap_err().kind(), ErrorKind::Depth);
    drop(tower);
    assert_eq!(context.meter().memory_used(), 0);
}

#[test]
fn a_nest_of_tuples_is_compared_to_a_verdict_and_dropped_without_recursion() {
    let meter = Meter::new(u64::MAX, usize::MAX);
    let nest = || (0..1_000_000).fold(Value::None, |inner, _| meter.tuple(vec![inner]).unwrap());
    let (a, b) = (nest(), nest());
    assert_eq!(hone_program::equal(&a, &b, &meter).unwrap_err().kind(), ErrorKind::Depth);
    assert_eq!(meter.frozenset(vec![a, b]).unwrap_err().kind(), ErrorKind::Depth);
    assert_eq!(meter.memory_used(), 0);
}

#[test]
fn a_failing_native_says_its_name() {
    let library = library();
    let mut context = Context::new(&Limits::default());
    let fault = context.call(&native(&library, "add_one"), &[Value::None]).unwrap_err();
    assert_eq!(fault.into_error().to_string(), "line 0: type error: add_one: needs a whole number");
    let fault = context.call(&native(&library, "add_one"), &[]).unwrap_err();
    assert_eq!(fault.message(), "add_one() takes 1 argument but 0 were given");
}
