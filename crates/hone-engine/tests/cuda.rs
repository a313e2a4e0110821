//! Every operation of the GPU's backend against the readable one, by name, on awkward sizes. Without a GPU there is nothing to
//! compare: each test says so and passes.

#![expect(clippy::print_stderr, reason = "a test that skips says so")]

mod operations;

use std::sync::OnceLock;

use hone_engine::backend::Dtype;
use hone_engine::cuda::{Cuda, CudaOptions};
use hone_engine::reference::Reference;
use operations::{Ops, close};

/// The GPU, opened once for all tests.
fn gpu() -> Option<&'static Cuda> {
    static GPU: OnceLock<Option<Cuda>> = OnceLock::new();
    let open = || Cuda::open(&CudaOptions::default()).map_err(|reason| eprintln!("skipped: {reason}")).ok();
    GPU.get_or_init(open).as_ref()
}

/// Runs `body` on the reference, rounding as the GPU does, and on the GPU.
fn check(name: &str, tolerance: f32, body: &dyn Fn(&dyn Ops) -> Vec<f32>) {
    let Some(cuda) = gpu() else { return };
    let expected = body(&Reference::<f32>::new(Dtype::Bf16));
    // Where bf16 rounds a value that the two sides computed a last bit apart, one rounding step is allowed.
    close(&format!("{name} {}", hone_engine::backend::Backend::path(cuda)), &body(cuda), &expected, tolerance.max(2e-5) * 400.0);
}

#[test]
fn norms() {
    operations::norms(&check);
}

#[test]
fn products() {
    operations::products(&check);
}

#[test]
fn tables_and_biases() {
    operations::tables_and_biases(&check);
}

#[test]
fn attention_over_shared_and_lone_runs() {
    operations::attention_over_shared_and_lone_runs(&check);
}

#[test]
fn gated_units_and_updates() {
    operations::gated_units_and_updates(&check);
}

#[test]
fn heads_with_and_without_a_mask() {
    operations::heads_with_and_without_a_mask(&check);
}
