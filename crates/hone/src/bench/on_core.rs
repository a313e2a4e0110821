//! A stopwatch for the time that this thread was on a core: other work on the machine does not count.

use std::time::Instant;

/// Started when it is made.
#[derive(Debug)]
pub(super) struct OnCore {
    start: Instant,
    on_core_ns: Option<u64>,
}

impl OnCore {
    pub(super) fn start() -> Self {
        Self { start: Instant::now(), on_core_ns: on_core_ns() }
    }

    /// Seconds on a core since the start; where the system does not tell, all seconds that passed.
    pub(super) fn seconds(&self) -> f64 {
        match (self.on_core_ns, on_core_ns()) {
            (Some(start), Some(end)) => end.saturating_sub(start) as f64 / 1e9,
            _ => self.start.elapsed().as_secs_f64(),
        }
    }
}

/// Nanoseconds that this thread was on a core, as Linux says.
fn on_core_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_not_work() {
        let watch = OnCore::start();
        std::thread::sleep(std::time::Duration::from_millis(60));
        let waited = watch.seconds();
        let is_told = on_core_ns().is_some();
        assert!(if is_told { waited < 0.05 } else { waited >= 0.06 }, "{waited}");
        let sum = (0..20_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        assert!(watch.seconds() > waited, "{sum}");
    }
}
