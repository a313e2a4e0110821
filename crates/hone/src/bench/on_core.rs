//! A stopwatch for the time that this thread was on a core: other work on the machine does not count.

use rustix::time::{ClockId, clock_gettime};

/// Started when it is made.
#[derive(Debug)]
pub(super) struct OnCore {
    start: f64,
}

impl OnCore {
    pub(super) fn start() -> Self {
        Self { start: on_core() }
    }

    /// Seconds on a core since the start.
    pub(super) fn seconds(&self) -> f64 {
        on_core() - self.start
    }
}

/// Seconds that this thread was on a core.
fn on_core() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_not_work() {
        let watch = OnCore::start();
        std::thread::sleep(std::time::Duration::from_millis(60));
        let waited = watch.seconds();
        assert!(waited < 0.05, "{waited}");
        let sum = (0..20_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        assert!(watch.seconds() > waited, "{sum}");
    }
}
