use std::sync::Arc;
use std::thread;

use super::shared::{Shared, Turn};
use crate::{KeyMapper, TransferEngine};

/// The tier's one task: settles completions, refills the window and runs the timers, so that neither
/// waits for a scheduler to poll.
///
/// Not an `async fn`: the guard is made now, so that it also sees a task that never runs.
pub(super) fn drive<E: TransferEngine, K: KeyMapper>(
    shared: Arc<Shared<E, K>>,
) -> impl Future<Output = ()> + Send {
    let driver = Driver(shared);
    async move { run(&driver.0).await }
}

async fn run<E: TransferEngine, K: KeyMapper>(shared: &Shared<E, K>) {
    while let Turn::Again(wake) = shared.turn() {
        let posted = shared.completions.posted();
        match wake {
            None => posted.await,
            Some(at) => {
                tokio::select! {
                    () = posted => {}
                    () = tokio::time::sleep_until(at.into()) => {}
                }
            }
        }
    }
}

/// Notices that the driver ends before the tier is closed: it panicked, or its runtime is gone. Nothing new
/// can be moved then, but what is in flight still ends, and whoever waits for it must learn that.
struct Driver<E: TransferEngine, K: KeyMapper>(Arc<Shared<E, K>>);

impl<E: TransferEngine, K: KeyMapper> Drop for Driver<E, K> {
    fn drop(&mut self) {
        self.0.stop_intake();
        if self.0.is_closed() {
            return;
        }
        let shared = Arc::clone(&self.0);
        let settle_the_rest = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
            runtime.block_on(run(&shared));
            Ok::<_, std::io::Error>(())
        };
        if let Err(error) = thread::Builder::new().name("kvtier-orphan".into()).spawn(settle_the_rest) {
            tracing::error!(target: "kvtier::job", %error, "no thread for a tier without a runtime: what is in flight is never reported");
        }
    }
}
