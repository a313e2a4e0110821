#![allow(clippy::all, clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "scratch")]
use hone_arbiter::canary::*;
use hone_arbiter::simulate::*;
fn main() {
    let args: Vec<f64> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (runs, harm, nmin, nexp) = (args[0] as usize, args[1], args[2] as u64, args[3] as u64);
    let mut s = Settings::default();
    s.rule = Rule::NonInferior { margin: 0.03 };
    s.stages[0].harm_max = Some(harm);
    s.stages[0].n_canary_min = nmin;
    s.n_rows_expected = nexp;
    let base = World::with_lift(0.0);
    let conds = [("plain", base), ("drift", World { drift: 0.1, ..base }), ("delay", World { n_delay_mean: 200.0, ..base }), ("missing", World { missing: 0.1, ..base })];
    let imp = Settings { rule: Rule::Improve { gain: 0.1, margin: 0.03 }, ..s.clone() };
    for (name, w) in conds {
        for (lift, set, label) in [(0.0, &s, "ni"), (-0.03, &s, "ni"), (-0.05, &s, "ni"), (-0.1, &s, "ni"), (-0.3, &s, "ni"), (0.0, &imp, "imp"), (0.15, &imp, "imp")] {
            let w = World { lift, base: if label == "imp" && w.drift > 0.0 { 0.75 } else { 0.8 }, ..w };
            let w = if label == "imp" { World { drift: w.drift / 2.0, ..w } } else { w };
            let t = std::time::Instant::now();
            let p: Vec<_> = (0..runs).map(|r| play(set, &w, 11, r).unwrap()).collect();
            let share = |st: State| p.iter().filter(|x| x.state == st).count() as f64 / runs as f64;
            let q = |st: State, q: f64| { let mut v: Vec<usize> = p.iter().filter(|x| x.state == st).map(|x| x.n_rows).collect(); v.sort(); if v.is_empty() { 0 } else { v[((v.len() - 1) as f64 * q) as usize] } };
            let mut why = std::collections::BTreeMap::new();
            for x in &p { if x.state == State::RolledBack { *why.entry(format!("{:?}", x.last.as_ref().unwrap().reason)).or_insert(0) += 1; } }
            println!("{name:8} {label:4} {lift:5} back {:.4} med {} p95 {} | prom {:.4} med {} {:?} {:.1}s", share(State::RolledBack), q(State::RolledBack, 0.5), q(State::RolledBack, 0.95), share(State::Promoted), q(State::Promoted, 0.5), why, t.elapsed().as_secs_f64());
        }
    }
    let p: Vec<_> = (0..runs).map(|r| play(&s, &World::dead(), 11, r).unwrap()).collect();
    let mut v: Vec<usize> = p.iter().map(|x| x.n_rows).collect(); v.sort();
    println!("dead med {} p95 {} all back {}", v[runs / 2], v[(runs as f64 * 0.95) as usize], p.iter().all(|x| x.state == State::RolledBack));
}
