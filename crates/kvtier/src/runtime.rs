use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// Worker threads of a [`TierRuntime`]: one can hash or copy a block while the other keeps the tier going.
const WORKER_THREADS: usize = 2;

/// A small runtime for tiers whose owner has none: two worker threads, with I/O and time.
///
/// Dropping it never blocks, also inside another runtime: its tasks are stopped in the background, after which tiers on it
/// answer [`Closed`](kvtier_core::SubmitError::Closed). Shut the tiers down first.
#[derive(Debug)]
pub struct TierRuntime(Option<Runtime>);

impl TierRuntime {
    /// Starts the threads.
    ///
    /// # Errors
    /// What the operating system says if it has no threads or no poller to give.
    pub fn new() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .thread_name("kvtier")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// What tiers and engines are given.
    ///
    /// # Panics
    /// Never: only `drop` takes the runtime.
    pub fn handle(&self) -> &Handle {
        let Some(runtime) = &self.0 else { unreachable!("only drop takes the runtime") };
        runtime.handle()
    }
}

impl Drop for TierRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
