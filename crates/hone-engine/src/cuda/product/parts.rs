//! Forward products whose inputs are summed in parts ([`Summed`]): by the library a call for each run, by ours one launch.

use super::{Address, Grid, Products, Shape, args, few, tune};
use crate::backend::Put;
use crate::cuda::Summed;
use crate::cuda::few::{Few, Then};
use crate::cuda::wide;

/// Bytes for the sums of a part, few enough to stay in the cache.
const SUMS: usize = 16 << 20;
/// Up to so many rows, parts are added by one launch of ours. Its tiles are small and the library's are large, but the library writes and reads
/// all sums for every run.
const AT_ONCE_ROWS_MAX: usize = 1 << 16;

impl Products {
    /// Computes a product by the library, of as many rows at a time as there is room for the sums of a part.
    pub(in crate::cuda) fn multiply_parts(
        &self,
        shape: Shape,
        summed: Summed,
        left: Address,
        right: Address,
        put: Put,
        out: Address,
    ) {
        if summed.run >= shape.k {
            return self.multiply(shape, left, right, put, out);
        }
        let rows_max = (SUMS / (shape.n * 4)).max(1);
        for first in (0..shape.rows).step_by(rows_max) {
            let some = Shape { rows: rows_max.min(shape.rows - first), ..shape };
            let left = left + (first * shape.strides[0] * 2) as u64;
            self.multiply_runs(some, summed, [left, right], put, out + (first * shape.strides[2] * 4) as u64);
        }
    }

    /// The runs of a part are added where it belongs if nothing else is there, or else beside that, and the whole part to it.
    fn multiply_runs(&self, shape: Shape, Summed { part, run }: Summed, from: [Address; 2], put: Put, out: Address) {
        assert!(shape.k.is_multiple_of(part) && part.is_multiple_of(run), "parts are whole, and have whole runs");
        let [left_stride, right_stride, stride] = shape.strides;
        for start in (0..shape.k).step_by(part) {
            let put = if start == 0 { put } else { Put::Add };
            let is_beside = put == Put::Add && part > run;
            let (to, to_stride) = if is_beside { (self.sums(), shape.n) } else { (out, stride) };
            let of_run = Shape { k: run, strides: [left_stride, right_stride, to_stride], ..shape };
            for at in (start..start + part).step_by(run) {
                let [left, right] = from.map(|address| address + (at * 2) as u64);
                let first = if is_beside { Put::Set } else { put };
                self.multiply(of_run, left, right, if at == start { first } else { Put::Add }, to);
            }
            if is_beside {
                let len = shape.rows * shape.n;
                self.device.launch("add_rows", Grid::each(len), args![to, shape.n, len, out, stride]);
            }
        }
    }

    fn sums(&self) -> Address {
        self.sums.get_or_init(|| self.device.memory(SUMS)).address()
    }

    /// Adds a product in parts by one launch of ours, where they take it and give the library's bits; whether it does.
    pub(in crate::cuda) fn adds_parts(&self, shape: &Shape, summed: Summed, addresses: [Address; 3]) -> bool {
        let stages = few::stages_of(summed, shape.k, Then::Add).filter(|&[part, _]| part > 0);
        let (Some([part, run]), 1..=AT_ONCE_ROWS_MAX) = (stages, shape.rows) else { return false };
        let of_run = Shape { k: summed.run, ..*shape };
        if !few::fits(shape.n, Then::Add) || !self.few_agree(&of_run, addresses[1]) {
            return false;
        }
        let few = Few { part, run, ..tune::few_of(shape, addresses) };
        if let Some(way) = wide::quickest(&few, &self.device, Then::Add) {
            way.run(&few, &self.device, Then::Add);
            return true;
        }
        let Some(&way) = few.ways(&self.device).first() else { return false };
        few.run(&self.device, way, Then::Add);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::cuda::few::Stretch;
    use crate::cuda::product::Kind;
    use crate::cuda::{Buf, Cuda, CudaOptions, Weight};
    use crate::random::Stream;

    /// Outputs, elements from row to row of them, and the rank and scale of an adapter.
    const N: usize = 200;
    const STRIDE: usize = 208;
    const RANK: usize = 16;
    const SCALE: f32 = 2.0;

    fn noise(cuda: &Cuda, i: u64, len: usize) -> Buf {
        cuda.noise(Stream::new(7, i), 1.0, len).expect("a GPU makes noise")
    }

    /// Everyone who multiplies in parts, with so many rows, set or added to what is there, without an adapter and with one.
    fn check(cuda: &Cuda, summed: Summed, k: usize, rows: usize) {
        let Cuda { device, products, .. } = cuda;
        let x = cuda.act(&noise(cuda, 0, rows * k), rows, k, 1.0);
        let matrix = |i: u64, rows: usize, cols: usize| cuda.weight(&noise(cuda, i, rows * cols), rows, cols, false);
        let (w, a, b) = (matrix(1, N, k), matrix(2, RANK, k), matrix(3, N, RANK));
        let before = noise(cuda, 4, rows * STRIDE);
        let shape_of = |weight: &Weight, x_stride: usize, stride: usize| {
            let strides = [x_stride, weight.stride, stride];
            Shape { kind: Kind::Forward, rows, n: weight.rows, k: weight.cols, strides, batch: 1, offsets: [0; 3] }
        };
        let shape = shape_of(&w, x.stride, STRIDE);
        let of_run = Shape { k: summed.run, ..shape };

        // Each run by itself, and all else on the host.
        let run_at = |at: usize| {
            let to = cuda.zeros(rows * STRIDE);
            let [left, right] = [x.address(), w.address()].map(|address| address + (at * 2) as u64);
            products.multiply(of_run, left, right, Put::Set, to.address());
            cuda.download(&to)
        };
        let add = |sums: Vec<f32>, more: Vec<f32>| sums.iter().zip(more).map(|(sum, more)| sum + more).collect::<Vec<f32>>();
        let part_at = |at: usize| (at..at + summed.part).step_by(summed.run).map(run_at).reduce(add).expect("a run");
        let parts = || (0..k).step_by(summed.part).map(part_at);
        let there = cuda.download(&before);
        let is_output = |i: usize| i % STRIDE < N;
        let kept = |(i, sum): (usize, f32)| if is_output(i) { sum } else { there[i] };
        let all = |sums: Option<Vec<f32>>| -> Buf {
            cuda.upload(&sums.expect("a part").into_iter().enumerate().map(kept).collect::<Vec<f32>>())
        };
        let (set, added) = (all(parts().reduce(add)), all(Some(parts().fold(there.clone(), add))));

        let expect = |what: &str, expected: &Buf, run: &dyn Fn(u64)| {
            let y = cuda.copy(&before);
            run(y.address());
            let same = device.is_same(y.address(), expected.address(), rows * STRIDE);
            assert!(same, "{what}: {rows} rows of {k} inputs, {summed:?}");
        };
        for (put, expected) in [(Put::Set, &set), (Put::Add, &added)] {
            let run = |y: u64| products.multiply_parts(shape, summed, x.address(), w.address(), put, y);
            expect(&format!("the library, {put:?}"), expected, &run);
        }
        if !products.few_agree(&of_run, w.address()) {
            assert!(!device.has_groups(), "our products of {k} inputs have other bits");
            return;
        }
        expect("one launch", &added, &|y| assert!(products.adds_parts(&shape, summed, [x.address(), w.address(), y])));

        let adapted = cuda.copy(&added);
        let low = cuda.buf(rows * RANK);
        products.multiply(shape_of(&a, x.stride, RANK), x.address(), a.address(), Put::Set, low.address());
        let low = cuda.act(&low, rows, RANK, SCALE);
        products.multiply(shape_of(&b, low.stride, STRIDE), low.address(), b.address(), Put::Add, adapted.address());
        let [part, run] = few::stages_of(summed, k, Then::Add).expect("whole stages");
        let plain = Few { part, run, ..tune::few_of(&shape, [x.address(), w.address(), 0]) };
        let stretches = [Stretch { b: b.address(), end: N as i32, from: 0 }, Stretch::default(), Stretch::default()];
        let with_low = Few { a: a.address(), rank: RANK as i32, stretches, scale: SCALE, ..plain };
        for (few, expected) in [(plain, &added), (with_low, &adapted)] {
            for way in few.ways(device) {
                expect(&format!("{way}, rank {}", few.rank), expected, &|y| Few { y, ..few }.run(device, way, Then::Add));
            }
            let ways = wide::ways(&few, device, Then::Add);
            assert_eq!(ways.is_empty(), !device.has_groups() || few.rank > 0 && rows <= 16, "{rows} rows, rank {}", few.rank);
            for way in ways {
                expect(&way.to_string(), expected, &|y| way.run(&Few { y, ..few }, device, Then::Add));
            }
        }
    }

    #[test]
    fn runs_are_added_to_parts_and_parts_to_what_is_there() {
        let cache = Some(std::env::temp_dir().join("hone-kernels"));
        let cuda = match Cuda::open(&CudaOptions { cache, ..CudaOptions::default() }) {
            Ok(cuda) => cuda,
            Err(reason) => return eprintln!("skipped: {reason}"),
        };
        for (k, part, run) in [(576, 192, 64), (768, 256, 128), (256, 256, 128), (192, 64, 64)] {
            for rows in [1, 7, 16, 17, 33, 64, 65, 300, 1001] {
                check(&cuda, Summed { part, run }, k, rows);
            }
        }
        // More than there is room for at once.
        check(&cuda, Summed { part: 192, run: 64 }, 384, SUMS / (N * 4) + 3);
    }
}
