//! Reading the log past a damaged line, so that one does not hide all others.

use hone_trace::store::{Event, Store, StoreError};

/// The events of a stream after this number, oldest first: perhaps less than `limit`, and none when there are no more. Of a damaged one
/// it is said which; then the number is that one's, so that it is said once.
pub(crate) async fn read(
    store: &dyn Store,
    stream: &str,
    after: &mut u64,
    limit: u32,
    say: impl Fn(String),
) -> Result<Vec<(u64, Event)>, StoreError> {
    let mut limit = limit;
    loop {
        match store.events(Some(stream), *after, limit).await {
            // Those before it are read first, one by one.
            Err(StoreError::Damaged { .. }) if limit > 1 => limit = 1,
            Err(StoreError::Damaged { what, reason }) => {
                say(format!("{what} is damaged and passed by, `hone store verify` names all that are: {reason}"));
                *after = number_of(store, stream, *after, &what).await?;
            }
            read => return read,
        }
    }
}

/// The number of the damaged event that comes next: the store names it without its number, but gives what comes behind that.
async fn number_of(store: &dyn Store, stream: &str, mut before: u64, what: &str) -> Result<u64, StoreError> {
    let mut step = 1;
    while !is_behind(store, stream, before.saturating_add(step), what).await? {
        before = before.saturating_add(step);
        step = step.saturating_mul(2);
    }
    let mut behind = before.saturating_add(step);
    while behind - before > 1 {
        let middle = before + (behind - before) / 2;
        match is_behind(store, stream, middle, what).await? {
            true => behind = middle,
            false => before = middle,
        }
    }
    Ok(behind)
}

async fn is_behind(store: &dyn Store, stream: &str, number: u64, what: &str) -> Result<bool, StoreError> {
    match store.events(Some(stream), number, 1).await {
        Err(StoreError::Damaged { what: found, .. }) => Ok(found != what),
        read => read.map(|_| true),
    }
}
