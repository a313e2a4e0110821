//! Playing a plan so that nothing is lost: each group is scored by the world's recipe, handed to who listens, and written to the store
//! while the next ones are played.

use crate::context::Context;
use crate::failure::Failure;
use crate::play::{Remarks, Weigher, writes};
use crate::world::World;
use hone_env::Player;
use hone_env::rollout::{Plan, Played, rollout};
use hone_store::Database;
use hone_trace::store::{Document, Put, StoreError, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, channel};

/// Groups that may wait for the store before the players do.
const N_WAITING_MAX: usize = 4;

/// Plays a plan and keeps all of it, with what the listener notes on it; not a group whose traces the listener takes away. Returns how
/// many records were there already with other content.
pub(crate) fn play(
    world: &World,
    player: Player<'_>,
    plan: &Plan<'_>,
    context: &Context<'_>,
    mut listen: impl FnMut(&mut Played, &Remarks),
) -> Result<usize, Failure> {
    let weigher = Weigher::new(&world.recipe, plan, None)?;
    context.wait(async |context| {
        let store = context.store().await?;
        let config = Document::of(&*player.config(), 0, plan.tenant.clone(), crate::clock::now());
        store.put(vec![Write::Document(config)]).await?;
        let (send, receive) = channel(N_WAITING_MAX);
        let writing = tokio::spawn(write(store, receive));
        tokio::task::block_in_place(|| {
            rollout(world.env.as_ref(), player, plan, |mut played| {
                let remarks = weigher.weigh(&mut played);
                listen(&mut played, &remarks);
                if played.traces.is_empty() {
                    return ControlFlow::Continue(());
                }
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
