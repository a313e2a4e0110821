//! Every operation of the fast backend against the readable one: all instruction levels, both types, awkward sizes.

use crate::operations::{self, Ops, close};
use hone_engine::backend::Dtype;
use hone_engine::cpu::{Cpu, Isa};
use hone_engine::reference::Reference;

/// Runs `body` on the reference and on every level with 1 and 3 threads; results must agree, and threads not matter.
fn check(name: &str, tolerance: f32, body: &dyn Fn(&dyn Ops) -> Vec<f32>) {
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let expected = body(&Reference::<f32>::new(dtype));
        for isa in Isa::available() {
            let one = body(&Cpu::with_isa(dtype, 1, isa));
            let three = body(&Cpu::with_isa(dtype, 3, isa));
            assert_eq!(bits(&one), bits(&three), "{name} {dtype:?} {isa:?}: threads change bits");
            // Where bf16 rounds a value that the two sides computed a last bit apart, one rounding step is allowed.
            let tolerance = if dtype == Dtype::F32 { tolerance } else { tolerance.max(2e-5) * 400.0 };
            close(&format!("{name} {dtype:?} {isa:?}"), &one, &expected, tolerance);
        }
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

operations::operation_tests! { check }
