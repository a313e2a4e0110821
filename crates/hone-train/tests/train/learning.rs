//! Every method learns on a toy, and the way there is the same to the bit.
//!
//! A tiny random model plays episodes of two turns; an answer earns the share of its room that it fills with token 7.

mod toy;

use hone_engine::optim::Schedule;
use hone_engine::peft;
use hone_train::TrainError;
use hone_train::advantage::{Centring, TurnBaseline, turn_rewards};
use hone_train::batch::{Advantage, Batch};
use hone_train::critic::{Critic, CriticOptions};
use hone_train::episode::Episode;
use hone_train::groups::{Credit, GroupOptions, Groups};
use hone_train::loss::{Correction, Kl, KlEstimator, Method, PreferenceLoss, awr_weights};
use hone_train::sft;
use hone_train::step::{Objective, Reference, Skipped, StepOptions, StepStats, evaluate, kl_by_episode, step};
use toy::{N_TOKENS, Toy, group_options, reward};

const N_STEPS: u64 = 30;
const LR: f32 = 0.01;

fn grpo(method: Method) -> StepOptions {
    StepOptions::new(Objective::Policy(method.loss(2 * N_TOKENS)), Schedule::Constant { lr: LR })
}

/// Trains for a while: mean rewards at the start and the end, and the statistics of every step.
fn train(toy: &mut Toy, options: &StepOptions, groups: &GroupOptions, n_steps: u64) -> (f64, f64, Vec<StepStats>) {
    let mut stats = Vec::new();
    let start = toy.mean_reward(1000);
    for step_idx in 0..n_steps {
        let traces = toy.play(step_idx);
        let traces: Vec<&[_]> = traces.iter().map(Vec::as_slice).collect();
        let mut made = Groups::new(&traces, groups).expect("good options");
        if made.batch.is_empty() {
            continue;
        }
        stats.push(step(&mut toy.host, &mut toy.trainer, &mut made.batch, options).expect("a good batch"));
    }
    (start, toy.mean_reward(1000), stats)
}

#[test]
fn every_method_learns() {
    for method in Method::ALL {
        let mut toy = Toy::new(2);
        let groups = GroupOptions { credit: Credit::Episode(method.centring()), ..group_options() };
        let options = StepOptions { n_epochs: 2, ..grpo(method) };
        let (start, end, stats) = train(&mut toy, &options, &groups, N_STEPS);
        println!("{method:?}: {start:.3} to {end:.3}, entropy {:.2} to {:.2}", stats[0].entropy, stats[stats.len() - 1].entropy);
        assert!(start < 0.1 && end > start + 0.3, "{method:?} went from {start} to {end}");
        // On policy, trainer and sampler agree to the bit in every step.
        assert!(stats.iter().all(|stats| stats.mismatch_max == Some(0.0) && stats.n_moves == 2));
    }
}

#[test]
fn several_epochs_move_further_and_are_clipped() {
    let (_, once, _) = train(&mut Toy::new(2), &grpo(Method::DrGrpo), &group_options(), 4);
    let options = StepOptions { n_epochs: 4, ..grpo(Method::DrGrpo) };
    let (_, often, stats) = train(&mut Toy::new(2), &options, &group_options(), 4);
    println!("4 steps: {once:.3} with one epoch, {often:.3} with four");
    assert!(often > once);
    let last = stats.last().expect("four steps");
    assert!(last.n_moves == 4 && last.ratio_max > 1.2 && last.clip_share_high > 0.0 && last.drift > 0.0, "{last:?}");
}

#[test]
fn the_adapter_is_the_same_for_any_number_of_threads() {
    let run = |n_threads| {
        let mut toy = Toy::new(n_threads);
        train(&mut toy, &grpo(Method::Dapo), &group_options(), 3);
        peft::hash(&toy.host.model().config, &toy.adapter())
    };
    let (one, two) = (run(1), run(2));
    println!("adapter {one}");
    assert_eq!(one, two);
    assert_eq!(two, run(2));
}

#[test]
fn how_a_batch_is_cut_changes_no_loss_and_hardly_a_gradient() {
    let run = |n_rows_max| {
        let mut toy = Toy::new(2);
        let (.., stats) = train(&mut toy, &grpo(Method::Grpo), &GroupOptions { n_rows_max, ..group_options() }, 1);
        (stats[0].clone(), toy.adapter())
    };
    let ((whole, weights), (cut, cut_weights)) = (run(4096), run(30));
    assert!(whole.n_micro_batches == 1 && cut.n_micro_batches > 4);
    assert!((whole.loss - cut.loss).abs() < 1e-12 && (whole.grad_norm / cut.grad_norm - 1.0).abs() < 1e-5);
    for (matrix, cut) in weights.matrices.values().zip(cut_weights.matrices.values()) {
        assert!(matrix.iter().zip(cut).all(|(a, b)| (a - b).abs() < 2e-4));
    }
}

#[test]
fn divergence_from_the_reference_is_held_back_in_loss_and_reward() {
    let drift = |options: &StepOptions, beta_in_reward: f64| {
        let mut toy = Toy::new(2);
        for step_idx in 0..6 {
            let traces = toy.play(step_idx);
            let traces: Vec<&[_]> = traces.iter().map(Vec::as_slice).collect();
            let mut groups = Groups::new(&traces, &group_options()).expect("good options");
            let kl_e = kl_by_episode(&toy.host, &toy.trainer, &mut groups.batch, options, KlEstimator::K1).expect("a reference");
            groups.penalise(&kl_e.iter().map(|kl| beta_in_reward * kl).collect::<Vec<_>>()).expect("one per episode");
            step(&mut toy.host, &mut toy.trainer, &mut groups.batch, options).expect("a good batch");
        }
        toy.kl()
    };
    let with_kl = |estimator| {
        let mut loss = Method::DrGrpo.loss(2 * N_TOKENS);
        loss.kl = Some(Kl { estimator, beta: 0.5 });
        StepOptions { objective: Objective::Policy(loss), ..grpo(Method::DrGrpo) }
    };
    let free = drift(&grpo(Method::DrGrpo), 0.0);
    let held = [drift(&with_kl(KlEstimator::K2), 0.0), drift(&with_kl(KlEstimator::K3), 0.0), drift(&grpo(Method::DrGrpo), 0.5)];
    println!("divergence per token: {free:.3} free; {held:.3?} held back by k2, k3 and in the reward");
    assert!(held.iter().all(|&held| held < 0.7 * free));
    let refused = drift_refused(&with_kl(KlEstimator::K1));
    assert!(matches!(refused, Err(TrainError::Conflict(_))));
}

fn drift_refused(options: &StepOptions) -> Result<StepStats, TrainError> {
    let mut toy = Toy::new(1);
    let mut batch = Batch::new(&[toy.episode()], 1000);
    step(&mut toy.host, &mut toy.trainer, &mut batch, options)
}

#[test]
fn turns_can_be_credited_on_their_own() {
    let credit = Credit::Turns { gamma: 0.5, baseline: TurnBaseline::PerTurn };
    let mut toy = Toy::new(2);
    let (start, end, _) = train(&mut toy, &grpo(Method::DrGrpo), &GroupOptions { credit, ..group_options() }, N_STEPS);
    println!("turn by turn: {start:.3} to {end:.3}");
    assert!(end > start + 0.3);
}

#[test]
fn old_data_is_corrected() {
    // Data of the first policy is used after the policy has moved.
    let mut loss = Method::DrGrpo.loss(2 * N_TOKENS);
    loss.correction = Some(Correction::default());
    let corrected = StepOptions { objective: Objective::Policy(loss), ..grpo(Method::DrGrpo) };
    let mut toy = Toy::new(2);
    let stale = toy.play(0);
    train(&mut toy, &grpo(Method::DrGrpo), &group_options(), 4);
    let stale: Vec<&[_]> = stale.iter().map(Vec::as_slice).collect();
    let mut made = Groups::new(&stale, &group_options()).expect("good options");
    let uncorrected = evaluate(&toy.host, &toy.trainer, &mut made.batch, &grpo(Method::DrGrpo)).expect("a good batch");
    let stats = step(&mut toy.host, &mut toy.trainer, &mut made.batch, &corrected).expect("a good batch");
    println!("stale: mismatch {:.2}, mean weight {:.3}", stats.mismatch_max.unwrap_or(0.0), stats.correction_mean);
    assert!(uncorrected.ratio_max > 1.5 && uncorrected.correction_mean == 1.0);
    // Ratios compare with the policy of this step; the distance to the sampler is in the weights.
    assert!(stats.ratio_max == 1.0 && stats.correction_mean != 1.0 && stats.mismatch_max > Some(0.1));
}

#[test]
fn what_is_not_finite_moves_nothing() {
    let mut toy = Toy::new(2);
    let before = toy.adapter();
    let mut batch = Batch::new(&[toy.episode(), toy.episode()], 1000);
    for (advantage, why) in [(f64::NAN, Skipped::Loss), (3e38, Skipped::Gradient)] {
        batch.set_advantages(&[Advantage::Episode(advantage), Advantage::Episode(1.0)]).expect("one per episode");
        let options = StepOptions { n_epochs: 3, ..grpo(Method::Cispo) };
        let stats = step(&mut toy.host, &mut toy.trainer, &mut batch, &options).expect("a good batch");
        assert_eq!((stats.skipped, stats.n_moves), (Some(why), 0));
        assert_eq!(toy.adapter(), before);
    }
    // The next step starts clean.
    batch.set_advantages(&[Advantage::Episode(1.0), Advantage::Episode(1.0)]).expect("one per episode");
    let stats = step(&mut toy.host, &mut toy.trainer, &mut batch, &grpo(Method::DrGrpo)).expect("a good batch");
    assert_eq!((stats.skipped, stats.n_moves), (None, 1));
    assert!(stats.grad_norm.is_finite() && toy.adapter() != before);
    // The whole record can be written.
    assert!(serde_json::to_string(&stats).expect("plain data").contains("\"mismatch_max\":0.0"));
}

#[test]
fn requests_that_cannot_be_met_are_refused() {
    let mut toy = Toy::new(1);
    let mut refused = |ids: Vec<u32>, options: StepOptions| {
        let is_trained = vec![true; ids.len()];
        let episodes: Vec<Episode> = Episode::rendered(ids, &is_trained).into_iter().collect();
        let mut batch = Batch::new(&episodes, 10_000);
        step(&mut toy.host, &mut toy.trainer, &mut batch, &options).expect_err("refused")
    };
    assert_eq!(refused(vec![], grpo(Method::Grpo)), TrainError::EmptyBatch);
    assert_eq!(refused(vec![1, 99], grpo(Method::Grpo)), TrainError::UnknownToken { id: 99, vocab: 24 });
    assert!(matches!(refused(vec![1; 200], grpo(Method::Grpo)), TrainError::TooLong { n_tokens_max: 64, .. }));
    let no_epoch = StepOptions { n_epochs: 0, ..grpo(Method::Grpo) };
    assert!(matches!(refused(vec![1, 2], no_epoch), TrainError::Setting { name: "n_epochs", .. }));
    let unknown = Reference::Adapter(hone_engine::host::AdapterVersion(77));
    let options = StepOptions { reference: unknown, ..preference() };
    assert_eq!(refused(vec![1, 2], options), TrainError::NoReference);
}

fn preference() -> StepOptions {
    StepOptions::new(Objective::Preference(PreferenceLoss::default()), Schedule::Constant { lr: LR })
}

#[test]
fn imitation_lowers_the_loss_and_keeps_to_good_turns() {
    let mut toy = Toy::new(2);
    let traces: Vec<_> = (0..12).map(|i| toy.gold(i)).chain([toy.bad()]).collect();
    let chosen = sft::choose(&traces, sft::QUALITY_MIN);
    assert_eq!((chosen.episodes.len(), chosen.untrainable.len()), (12, 1));
    let episodes: Vec<Episode> = chosen.episodes.into_iter().map(|(_, episode)| episode).collect();
    let options = StepOptions::new(Objective::Imitation, Schedule::Linear { lr: 0.02, n_warmup: 2, n_steps: 24 });
    let mut all = Batch::new(&episodes, 1000);
    let start = evaluate(&toy.host, &toy.trainer, &mut all, &options).expect("a good batch");
    for epoch_idx in 0..12 {
        for mut batch in sft::batches(&episodes, 48, 200, 1, epoch_idx) {
            step(&mut toy.host, &mut toy.trainer, &mut batch, &options).expect("a good batch");
        }
    }
    let end = evaluate(&toy.host, &toy.trainer, &mut all, &options).expect("a good batch");
    println!("imitation: loss {:.3} to {:.3}, reward {:.3}", start.loss, end.loss, toy.mean_reward(5));
    assert!(start.loss > 2.5 && end.loss < 0.5);
    assert!(start.mismatch_max.is_none() && toy.mean_reward(5) > 0.8);
}

/// Logged episodes of the first policy, with their rewards.
fn logged(toy: &mut Toy) -> Vec<(Episode, f64)> {
    let traces: Vec<_> = (0..4).flat_map(|seed| toy.play(seed)).flatten().collect();
    traces.iter().map(|trace| (Episode::of_trace(trace).expect("trainable"), reward(trace))).collect()
}

#[test]
fn weighted_imitation_learns_from_logged_episodes() {
    let mut toy = Toy::new(2);
    let (episodes, rewards): (Vec<Episode>, Vec<f64>) = logged(&mut toy).into_iter().unzip();
    let start = toy.mean_reward(1000);
    let centred = hone_train::advantage::group(&rewards, Centring::Deviation { epsilon: 1e-4 }).expect("a signal");
    let weights = awr_weights(&centred, 0.5, 20.0).expect("good settings");
    let mut batch = Batch::new(&episodes, 2000);
    batch.set_advantages(&weights.into_iter().map(Advantage::Episode).collect::<Vec<_>>()).expect("one per episode");
    let options = StepOptions { n_epochs: 20, ..StepOptions::new(Objective::Imitation, Schedule::Constant { lr: LR }) };
    step(&mut toy.host, &mut toy.trainer, &mut batch, &options).expect("a good batch");
    let end = toy.mean_reward(1000);
    println!("weighted imitation: {start:.3} to {end:.3}");
    assert!(end > start + 0.05);
}

#[test]
fn a_critic_tells_good_prospects_from_bad_ones() {
    let mut toy = Toy::new(2);
    let mut critic = Critic::new(toy.host.model().config.dim);
    let mut explained = Vec::new();
    for seed in 0..6 {
        let groups = toy.play(seed);
        let episodes: Vec<Episode> = groups.iter().flatten().map(|trace| Episode::of_trace(trace).expect("trainable")).collect();
        // What an episode earns depends on its prompt alone.
        let rewards_e: Vec<Vec<f64>> =
            (0..).zip(&groups).flat_map(|(i, group)| vec![vec![0.0, f64::from(i)]; group.len()]).collect();
        let mut batch = Batch::new(&episodes, 4096);
        let options = CriticOptions { clip: None, n_epochs: 100, ..CriticOptions::default() };
        let judged = critic.judge(&toy.host, &toy.trainer, &mut batch, &rewards_e, &options).expect("good settings");
        explained.push(judged.explained);
    }
    println!("explained by the critic, batch by batch: {explained:.2?}");
    assert!(explained[0] == 0.0 && explained[5] > 0.5);
}

#[test]
fn ppo_learns_without_groups() {
    let mut toy = Toy::new(2);
    let mut critic = Critic::new(toy.host.model().config.dim);
    let options = StepOptions { n_epochs: 2, ..grpo(Method::Bnpo) };
    let start = toy.mean_reward(1000);
    for step_idx in 0..N_STEPS {
        // One episode per prompt: there is nothing to compare it with but the critic's estimate.
        let traces: Vec<_> = (0..8).flat_map(|i| toy.play(100 * step_idx + i)).map(|mut traces| traces.remove(0)).collect();
        let episodes: Vec<Episode> = traces.iter().map(|trace| Episode::of_trace(trace).expect("trainable")).collect();
        let mut batch = Batch::new(&episodes, 4096);
        let rewards_e: Vec<Vec<f64>> = traces.iter().map(turn_rewards).collect();
        let judged = critic.judge(&toy.host, &toy.trainer, &mut batch, &rewards_e, &CriticOptions::default());
        judged.expect("good settings");
        step(&mut toy.host, &mut toy.trainer, &mut batch, &options).expect("a good batch");
    }
    let end = toy.mean_reward(1000);
    println!("ppo: {start:.3} to {end:.3}");
    assert!(end > start + 0.3);
    // A critic of another model is refused.
    let mut batch = Batch::new(&[toy.episode()], 1000);
    let refused = Critic::new(3).judge(&toy.host, &toy.trainer, &mut batch, &[vec![1.0]], &CriticOptions::default());
    assert!(matches!(refused, Err(TrainError::Count { what: "features", .. })));
}

#[test]
fn tokens_are_scored_at_the_temperature_at_which_they_were_sampled() {
    let mut toy = Toy::new(2);
    let mut played = |temperature: f32| -> Vec<Episode> {
        toy.temperature = temperature;
        toy.play(0).concat().iter().map(|trace| Episode::of_trace(trace).expect("trainable")).collect()
    };
    let (calm, plain, greedy) = (played(0.7), played(1.0), played(0.0));
    let seen = |episodes: &[Episode]| {
        let mut batch = Batch::new(episodes, 2000);
        evaluate(&toy.host, &toy.trainer, &mut batch, &grpo(Method::Bnpo)).expect("a good batch")
    };
    let told = |episodes: &[Episode], temperature: f32| -> Vec<Episode> {
        episodes.iter().cloned().map(|episode| episode.sampled_at(temperature)).collect()
    };
    // Nothing has moved: every ratio is 1, unless tokens are scored at another temperature than they were sampled at.
    let untold = seen(&calm);
    assert!(untold.mismatch_max > Some(0.1) && untold.ratio_max > 1.1, "{untold:?}");
    for episodes in [told(&calm, 0.7), plain.clone(), [told(&calm, 0.7), plain, told(&greedy, 0.0)].concat()] {
        let stats = seen(&episodes);
        assert_eq!((stats.mismatch_max, stats.ratio_max), (Some(0.0), 1.0), "{stats:?}");
    }
}

#[test]
fn preferences_learn_from_ranked_episodes() {
    let mut toy = Toy::new(2);
    let start = toy.mean_reward(1000);
    let mut pairs = Vec::new();
    for seed in 0..4 {
        for mut traces in toy.play(seed) {
            traces.sort_by(|a, b| reward(b).total_cmp(&reward(a)));
            let (best, worst) = (&traces[0], &traces[traces.len() - 1]);
            if reward(best) > reward(worst) {
                pairs.push([best, worst].map(|trace| Episode::of_trace(trace).expect("trainable")));
            }
        }
    }
    let mut batch = Batch::of_pairs(&pairs, 400);
    let stats = step(&mut toy.host, &mut toy.trainer, &mut batch, &StepOptions { n_epochs: 16, ..preference() }).expect("good");
    let after = evaluate(&toy.host, &toy.trainer, &mut batch, &preference()).expect("a good batch");
    let end = toy.mean_reward(1000);
    println!("preference: loss {:.3} to {:.3}, reward {start:.3} to {end:.3}", stats.loss, after.loss);
    // The model has not moved from the reference yet, so it prefers neither.
    assert!((stats.loss - 2f64.ln()).abs() < 1e-6 && stats.pair_accuracy == 0.0);
    assert!(after.loss < 0.5 && after.pair_accuracy > 0.9 && end > start + 0.05);
    // Who sampled them was the model without its adapter: the log-probs that it told are those of the reference.
    let by_sampler = StepOptions { reference: Reference::Sampler, ..preference() };
    assert_eq!(evaluate(&toy.host, &toy.trainer, &mut batch, &by_sampler).expect("log-probs were told"), after);
    let untold = Episode::of_trace(&toy.gold(0)).expect("trainable");
    let mut batch = Batch::of_pairs(&[[untold.clone(), untold]], 400);
    let refused = evaluate(&toy.host, &toy.trainer, &mut batch, &by_sampler);
    assert!(matches!(refused, Err(TrainError::Conflict(_))), "{refused:?}");
}
