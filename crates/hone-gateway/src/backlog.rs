//! Pieces of answers that wait for clients who read slowly.
//!
//! How fast a client reads says nothing of who answers it: an answer ends when its last piece is here. Every answer has a little room of
//! its own, so that no client can hold up those of others; what goes beyond comes out of the room that all share. Where there is none
//! left, who answers has to wait for the client, and for how long is told.

use axum::body::Bytes;
use futures_core::Stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

/// Bytes of an answer that there is always room for.
const OWN_BYTES_MAX: usize = 64 << 10;
/// Bytes of an answer that wait besides.
const MORE_BYTES_MAX: usize = 4 << 20;

/// The room that all answers share.
pub(crate) struct Backlog(Arc<Semaphore>);

impl Backlog {
    /// Room for so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes_max.min(Semaphore::MAX_PERMITS))))
    }

    /// The way of an answer to its client.
    pub(crate) fn queue(&self) -> (Queue, Pieces) {
        let (pieces, received) = mpsc::unbounded_channel();
        let [own, more] = [OWN_BYTES_MAX, MORE_BYTES_MAX].map(|bytes_max| Arc::new(Semaphore::new(bytes_max)));
        (Queue { pieces, own, more, shared: Arc::clone(&self.0) }, Pieces(received))
    }
}

/// Where pieces are put.
pub(crate) struct Queue {
    pieces: mpsc::UnboundedSender<Waiting>,
    own: Arc<Semaphore>,
    more: Arc<Semaphore>,
    shared: Arc<Semaphore>,
}

/// A piece, and the room that it takes until it is read.
struct Waiting(Bytes, #[expect(dead_code, reason = "its drop is what counts")] Room);

/// What is given back when it is dropped.
type Room = [Option<OwnedSemaphorePermit>; 2];

/// The client is gone.
#[derive(Debug)]
pub(crate) struct Left;

/// How long a client was waited for.
#[derive(Debug, Default)]
pub(crate) struct Waited {
    before: Duration,
    since: Option<Instant>,
}

impl Waited {
    /// All in all, also where it was given up in the middle.
    pub(crate) fn time(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    async fn during<T>(&mut self, wait: impl Future<Output = T>) -> T {
        self.since = Some(Instant::now());
        let came = wait.await;
        (self.before, self.since) = (self.time(), None);
        came
    }
}

impl Queue {
    /// Puts a piece behind the others, when there is room for it.
    pub(crate) async fn push(&self, piece: Bytes, waited: &mut Waited) -> Result<(), Left> {
        let room = match self.room(piece.len()) {
            Some(room) => room,
            // Those before it are read in the end, or dropped with their client.
            None => {
                let own = Arc::clone(&self.own).acquire_many_owned(part(piece.len(), OWN_BYTES_MAX));
                [waited.during(own).await.ok(), None]
            }
        };
        self.pieces.send(Waiting(piece, room)).map_err(|_| Left)
    }

    /// Puts a piece behind the others if there is room for it. Who has not read those needs no other.
    pub(crate) fn offer(&self, piece: Bytes) {
        if let Some(room) = self.room(piece.len()) {
            drop(self.pieces.send(Waiting(piece, room)));
        }
    }

    /// Room that is there.
    fn room(&self, n_bytes: usize) -> Option<Room> {
        let taken = |of: &Arc<Semaphore>, n_bytes| Arc::clone(of).try_acquire_many_owned(n_bytes).ok();
        if let Some(own) = taken(&self.own, part(n_bytes, OWN_BYTES_MAX)) {
            return Some([Some(own), None]);
        }
        let n_bytes = part(n_bytes, MORE_BYTES_MAX);
        Some([Some(taken(&self.more, n_bytes)?), Some(taken(&self.shared, n_bytes)?)])
    }

    /// Done when the client is gone.
    pub(crate) async fn closed(&self) {
        self.pieces.closed().await;
    }
}

/// What a piece takes of a room: one that is larger than all of it takes all of it.
fn part(n_bytes: usize, bytes_max: usize) -> u32 {
    u32::try_from(n_bytes.min(bytes_max)).unwrap_or(u32::MAX)
}

/// Where pieces are read.
pub(crate) struct Pieces(mpsc::UnboundedReceiver<Waiting>);

impl Stream for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|waiting| waiting.map(|Waiting(piece, _)| Ok(piece)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    /// Pieces of 16 KiB that are taken without anybody being waited for.
    async fn n_taken(queue: &Queue) -> usize {
        for n in 0.. {
            let mut waited = Waited::default();
            let piece = queue.push(vec![0; 16 * KIB].into(), &mut waited);
            let is_taken = tokio::select! {
                biased;
                pushed = piece => pushed.is_ok(),
                () = std::future::ready(()) => false,
            };
            if !is_taken {
                return n;
            }
        }
        unreachable!("there is no end of room")
    }

    #[tokio::test]
    async fn every_answer_has_room_of_its_own_and_all_share_the_rest() {
        let backlog = Backlog::new(5 << 20);
        let (first, mut first_read) = backlog.queue();
        let (second, _second_read) = backlog.queue();
        let (third, _third_read) = backlog.queue();
        assert_eq!(n_taken(&first).await, 4 + 256, "four MiB besides its own room");
        assert_eq!(n_taken(&second).await, 4 + 64, "one MiB was left");
        assert_eq!(n_taken(&third).await, 4, "nothing was left");
        for _ in 0..4 + 2 {
            assert!(first_read.0.recv().await.is_some());
        }
        assert_eq!((n_taken(&third).await, n_taken(&first).await), (2, 4), "what is read is room again");
        drop((first, first_read));
        assert_eq!(n_taken(&third).await, 254, "and so is what nobody reads any more");
    }

    #[tokio::test(start_paused = true)]
    async fn how_long_a_client_was_waited_for_is_known() {
        let backlog = Backlog::new(0);
        let (queue, mut read) = backlog.queue();
        let mut waited = Waited::default();
        queue.push(vec![0; 60 * KIB].into(), &mut waited).await.unwrap();
        assert_eq!(waited.time(), Duration::ZERO);
        let reading = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(4)).await;
            drop(read.0.recv().await);
            read
        });
        // Larger than any room: it takes all that there is.
        queue.push(vec![0; 100 * KIB].into(), &mut waited).await.unwrap();
        assert_eq!(waited.time(), Duration::from_secs(4));
        let given_up = tokio::time::timeout(Duration::from_secs(1), queue.push(Bytes::from("x"), &mut waited)).await;
        assert!(given_up.is_err());
        assert_eq!(waited.time(), Duration::from_secs(5), "also where it was in vain");
        drop(reading.await.unwrap());
        assert!(queue.push(Bytes::from("x"), &mut waited).await.is_err(), "the client is gone");
    }
}
