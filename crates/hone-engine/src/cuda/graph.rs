//! Work that is recorded and done again, and how long work takes by the GPU's own clock.
#![expect(unsafe_code, reason = "functions of foreign libraries")]

use std::ptr;
use std::sync::Arc;

use super::device::Device;
use super::library::Handle;

impl Device {
    /// Milliseconds of the GPU's time between the start and the end of what `work` asks for.
    pub(super) fn time_ms(self: &Arc<Self>, work: impl FnOnce()) -> f32 {
        let start = self.mark();
        work();
        let end = self.mark();
        end.ms_since(&start)
    }

    /// Milliseconds of one of `n` runs, recorded: what the host needs to ask for one does not count.
    pub(super) fn mean_ms(self: &Arc<Self>, n: usize, run: impl Fn(usize)) -> f32 {
        let graph = self.record(|| (0..n).for_each(run));
        graph.launch();
        self.time_ms(|| graph.launch()) / n as f32
    }

    /// A mark behind all that was asked for.
    pub(super) fn mark(self: &Arc<Self>) -> Mark {
        let mut event = ptr::null_mut();
        self.enter();
        // SAFETY: the event is made here and used on our stream.
        unsafe {
            self.check("an event", (self.driver.cuEventCreate)(&mut event, 0));
            self.check("an event", (self.driver.cuEventRecord)(event, self.stream));
        }
        Mark { device: Arc::clone(self), event }
    }

    /// Starts or stops a profiler that waits for it.
    pub(super) fn profile(&self, on: bool) {
        self.wait();
        // SAFETY: no arguments; without a profiler these do nothing.
        unsafe { if on { (self.driver.cuProfilerStart)() } else { (self.driver.cuProfilerStop)() } };
    }

    /// Records what `work` asks for as a graph instead of doing it.
    pub(super) fn record(self: &Arc<Self>, work: impl FnOnce()) -> Graph {
        let (mut graph, mut ready): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
        self.enter();
        // SAFETY: the stream is ours, and one thread records at a time: whoever samples holds the model.
        unsafe {
            self.check("recording", (self.driver.cuStreamBeginCapture)(self.stream, 2));
            work();
            self.check("recording", (self.driver.cuStreamEndCapture)(self.stream, &mut graph));
            self.check("a graph", (self.driver.cuGraphInstantiateWithFlags)(&mut ready, graph, 0));
            self.check("a graph", (self.driver.cuGraphDestroy)(graph));
        }
        Graph { device: Arc::clone(self), ready }
    }
}

/// A place in the GPU's work.
pub(super) struct Mark {
    device: Arc<Device>,
    event: Handle,
}

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Mark {}

impl Mark {
    /// Returns when all before it is done.
    pub(super) fn wait(&self) {
        self.device.enter();
        // SAFETY: the event was recorded.
        self.device.check("its work", unsafe { (self.device.driver.cuEventSynchronize)(self.event) });
    }

    /// Milliseconds of the GPU's time from an earlier mark to this one, once it is over.
    pub(super) fn ms_since(&self, earlier: &Self) -> f32 {
        self.wait();
        let mut ms = 0.0;
        // SAFETY: both events were recorded on one stream, and the later is over.
        let status = unsafe { (self.device.driver.cuEventElapsedTime)(&mut ms, earlier.event, self.event) };
        self.device.check("an event", status);
        ms
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: nobody else knows the event; the driver frees it when it is over.
        unsafe { (self.device.driver.cuEventDestroy)(self.event) };
    }
}

/// Work that was recorded and can be done again and again.
pub(super) struct Graph {
    device: Arc<Device>,
    ready: Handle,
}

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    pub(super) fn launch(&self) {
        self.device.enter();
        // SAFETY: the graph is instantiated, and the memory it works on belongs to who holds it.
        self.device.check("a graph", unsafe { (self.device.driver.cuGraphLaunch)(self.ready, self.device.stream) });
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.device.settle();
        // SAFETY: nothing runs it any more.
        unsafe { (self.device.driver.cuGraphExecDestroy)(self.ready) };
    }
}
