use std::sync::Arc;

use super::shared::{Shared, Turn};
use crate::{KeyMapper, TransferEngine};

/// The tier's one task: settles completions, refills the window and runs the timers, so that neither
/// waits for a scheduler to poll.
pub(super) async fn drive<E: TransferEngine, K: KeyMapper>(shared: Arc<Shared<E, K>>) {
    let driver = Driver(shared);
    let shared = &driver.0;
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

/// Says that the driver is gone however it ends: closed, panicked, or dropped with its runtime.
struct Driver<E: TransferEngine, K: KeyMapper>(Arc<Shared<E, K>>);

impl<E: TransferEngine, K: KeyMapper> Drop for Driver<E, K> {
    fn drop(&mut self) {
        self.0.driver_is_gone();
    }
}
