//! Playing a plan so that nothing is lost: each group is scored by the world's recipe, handed to who listens, and written to the store
//! while the next ones are played.

use crate::context::Context;
use crate::failure::Failure;
use crate::world::World;
use hone_env::Player;
use hone_env::rollout::{Plan, Played, rollout};
use hone_reward::{Attempt, Scorer};
use hone_store::Database;
use hone_trace::store::{Document, Put, StoreError, Write};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, channel};

/// Groups that may wait for the store before the players do.
const N_WAITING_MAX: usize = 4;

/// Plays a plan and keeps all of it. Returns how many records were there already with other content.
pub(super) fn play(
    world: &World,
    player: Player<'_>,
    plan: &Plan<'_>,
    context: &Context<'_>,
    mut listen: impl FnMut(&Played),
) -> Result<usize, Failure> {
    let scorer = Scorer::new(&world.recipe, None).map_err(Failure::user)?;
    context.wait(async |context| {
        let store = context.store().await?;
        let config = Document::of(&*player.config(), 0, plan.tenant.clone(), crate::clock::now());
        store.put(vec![Write::Document(config)]).await?;
        let (send, receive) = channel(N_WAITING_MAX);
        let writing = tokio::spawn(write(store, receive));
        tokio::task::block_in_place(|| {
            rollout(world.env.as_ref(), player, plan, |mut played| {
                score(&scorer, plan, &mut played);
                listen(&played);
                // The store is gone when nobody receives: why, the writer tells.
                match send.blocking_send(writes(played)) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            })
        });
        drop(send);
        Ok(writing.await.map_err(|error| Failure::bug(error.to_string()))??)
    })
}

/// Writes groups as they come, and counts the records that were there already with other content.
async fn write(store: Arc<dyn Database>, mut groups: Receiver<Vec<Write>>) -> Result<usize, StoreError> {
    let mut n_conflicts = 0;
    while let Some(writes) = groups.recv().await {
        n_conflicts += store.put(writes).await?.into_iter().filter(|put| *put == Put::Conflict).count();
    }
    Ok(n_conflicts)
}

/// Puts the rewards of a group on its traces. A trace that cannot be scored has none.
fn score(scorer: &Scorer<'_>, plan: &Plan<'_>, played: &mut Played) {
    let scenario = plan.scenarios.iter().find(|scenario| played.group.scenario.as_ref() == Some(&scenario.id));
    let item = scenario.map_or(Value::Null, |scenario| json!({"input": scenario.input, "truth": scenario.truth}));
    let attempts: Vec<Attempt<'_>> = played.traces.iter().map(|trace| Attempt { trace, item: &item }).collect();
    let scored = scorer.score_group(&attempts, plan.seed, played.group.at);
    for (trace, scored) in played.traces.iter_mut().zip(scored.traces) {
        if let Ok(scored) = scored {
            trace.rewards.extend(scored.turns);
            trace.rewards.push(scored.reward);
        }
    }
}

fn writes(played: Played) -> Vec<Write> {
    let group = Write::Document(Document::of(&played.group, 0, played.group.tenant.clone(), played.group.at));
    played.traces.into_iter().map(|trace| Write::Trace(Box::new(trace))).chain([group]).collect()
}
