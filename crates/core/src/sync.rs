//! The primitives whose every interleaving is explored by loom (`cargo xtask loom`, which builds with `--cfg kvtier_loom`);
//! in every other build they are those of the standard library, parking_lot and tokio.

#[cfg(not(kvtier_loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(kvtier_loom))]
pub(crate) use std::sync::atomic::AtomicU32;
#[cfg(not(kvtier_loom))]
pub(crate) use tokio::sync::Notify;

#[cfg(kvtier_loom)]
pub(crate) use explored::{Mutex, Notify};
#[cfg(kvtier_loom)]
pub(crate) use loom::sync::atomic::AtomicU32;

/// The same in terms of loom's primitives.
#[cfg(kvtier_loom)]
mod explored {
    use loom::sync::{Condvar, MutexGuard};

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            match self.0.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }
    }

    /// tokio's, as far as the queue uses it: one permit, kept until somebody waits.
    #[derive(Debug, Default)]
    pub(crate) struct Notify {
        permit: Mutex<bool>,
        given: Condvar,
    }

    impl Notify {
        pub(crate) fn notify_one(&self) {
            *self.permit.lock() = true;
            self.given.notify_one();
        }

        /// Blocks loom's thread instead of its task, which is the same to the queue.
        pub(crate) async fn notified(&self) {
            let mut permit = self.permit.lock();
            while !*permit {
                permit = match self.given.wait(permit) {
                    Ok(permit) => permit,
                    Err(poisoned) => poisoned.into_inner(),
                };
            }
            *permit = false;
        }
    }
}
