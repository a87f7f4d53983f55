use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use crate::{Error, Probe, Transfer};

/// What an engine can do and, as important, what it cannot see. Plain data, fixed for an engine's life.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each looked at by name")]
pub struct Capabilities {
    /// The engine's name in logs, metrics and tables, such as `object-store/s3`.
    pub name: String,
    /// Most transfers the tier hands over before one of them is complete. At least 1.
    pub transfers_in_flight_max: u32,
    /// Most probes worth handing over at once; the engine bounds what it really sends. At least 1.
    pub probes_in_flight_max: u32,
    /// Largest block that fits in one object, in bytes.
    pub block_bytes_max: u64,
    /// A load of an object shorter than the block is `Corrupt`.
    pub detects_short: bool,
    /// A load of an object longer than the block is `Corrupt`.
    pub detects_long: bool,
    /// Probes answer with the object's size.
    pub reports_size: bool,
    /// `Denied`, `Throttled`, `NotFound` and `Unavailable` are told apart.
    pub reports_error_kinds: bool,
    /// Objects can carry metadata, such as a checksum.
    pub keeps_metadata: bool,
    /// A transfer past its deadline is abandoned safely instead of waited for.
    pub honours_deadline: bool,
}

impl Capabilities {
    /// The most careful engine: everything is seen and told, one transfer and one probe at a time,
    /// blocks up to 5 GiB (the most that one S3 PutObject takes). An engine states what differs.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            transfers_in_flight_max: 1,
            probes_in_flight_max: 1,
            block_bytes_max: 5 << 30,
            detects_short: true,
            detects_long: true,
            reports_size: true,
            reports_error_kinds: true,
            keeps_metadata: true,
            honours_deadline: true,
        }
    }
}

/// What moves blocks between host memory and an object store.
///
/// # Contract
/// - **Exactly once**: every transfer is [completed](Transfer::complete) once, in any order, from any
///   thread, perhaps before `submit` returns; every probe is [answered](Probe::answer) once.
/// - **Last access**: when a transfer is complete, nothing touches its slot any more: no thread, no client
///   library, no kernel. A transfer dropped by mistake costs its slot or a failed block, never a wrong byte.
/// - **Right bytes**: a load is `Ok` only if the object held exactly one block and all of it is in the slot.
///   What an engine cannot see, its [`Capabilities`] say.
/// - **Independent**: one bad block or key changes nothing for another in the same call.
/// - **No retries**: one call, one attempt. Only the tier retries.
/// - **Nothing waits**: only the two async methods may wait. `submit` and `lookup` never block and do
///   no I/O on the caller's thread.
/// - **Honest errors**: an error is never reported as absent, and errors never hold secrets.
///
/// An engine is built ready: its constructor takes everything, so no half-built engine exists. The tier
/// owns it; to choose one at run time use `Box<dyn TransferEngine>`.
#[async_trait]
pub trait TransferEngine: fmt::Debug + Send + Sync + 'static {
    /// What this engine can do. Constant for its life.
    fn capabilities(&self) -> &Capabilities;

    /// One cheap round trip that proves endpoint, bucket and credentials.
    ///
    /// # Errors
    /// The message says which of endpoint, bucket, credentials, TLS or region to look at. Returns
    /// within the engine's own timeout.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    async fn probe(&self) -> Result<(), Error>;

    /// Takes any number of probes and returns at once. Each is answered as soon as its own answer is
    /// known; a slow or bad key delays and spoils no other. The engine bounds what it sends at a time.
    fn lookup(&self, probes: Vec<Probe>);

    /// Takes every transfer and returns at once. The tier never has more than
    /// [`Capabilities::transfers_in_flight_max`] of them out, so there is no "full" answer.
    fn submit(&self, batch: Vec<Transfer>);

    /// Stops intake and waits for what was accepted, at most until `deadline`.
    ///
    /// On return before the deadline every accepted transfer and probe is complete. At the deadline an engine
    /// that [honours deadlines](Capabilities::honours_deadline) completes the rest with
    /// [`Timeout`](crate::ErrorKind::Timeout); any other leaves them in flight and returns. Transfers and
    /// probes that arrive after the call complete with [`Closed`](crate::ErrorKind::Closed). May be called again.
    ///
    /// # Cancel safety
    /// Intake stays stopped; nothing else is promised.
    async fn close(&self, deadline: Instant);
}

/// Forwards every method to what a pointer points to.
macro_rules! forward_engine {
    ($pointer:ident) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<T: TransferEngine + ?Sized> TransferEngine for $pointer<T> {
            fn capabilities(&self) -> &Capabilities {
                (**self).capabilities()
            }
            async fn probe(&self) -> Result<(), Error> {
                (**self).probe().await
            }
            fn lookup(&self, probes: Vec<Probe>) {
                (**self).lookup(probes);
            }
            fn submit(&self, batch: Vec<Transfer>) {
                (**self).submit(batch);
            }
            async fn close(&self, deadline: Instant) {
                (**self).close(deadline).await;
            }
        }
    };
}

forward_engine!(Box);
forward_engine!(Arc);
