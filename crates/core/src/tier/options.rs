use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::job::{JobLimits, RetryPolicy};
use crate::lookup::LookupLimits;
use crate::{Capabilities, Error, ErrorKind};

/// What a [`SecondaryTier`](crate::SecondaryTier) is given besides its parts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TierOptions {
    /// Where the driver task and the timers run: a multi-thread runtime with its time driver enabled.
    pub runtime: Handle,
    /// Most transfers out at a time; the engine's own bound where that is lower. At least 1.
    pub transfers_in_flight_max: u32,
    /// Most blocks queued by all jobs together. At least 1.
    pub queued_blocks_max: u32,
    /// Most keys that lookups hold at a time. At least 1.
    pub lookup_entries_max: u32,
    /// When failed blocks are tried again.
    pub retry: RetryPolicy,
    /// How long one try of one block may take, on engines that can
    /// [abandon it safely](Capabilities::honours_deadline). `None` leaves it to the engine.
    pub transfer_timeout: Option<Duration>,
}

impl TierOptions {
    /// The defaults: the engine's own window, 2 Mi queued blocks, 1 Mi lookups, three tries, and no
    /// timeout besides the engine's.
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            transfers_in_flight_max: u32::MAX,
            queued_blocks_max: 2 << 20,
            lookup_entries_max: 1 << 20,
            retry: RetryPolicy::default(),
            transfer_timeout: None,
        }
    }

    /// The machines' bounds, once everything is known to make sense.
    pub(super) fn limits(
        &self,
        engine: &Capabilities,
        block_bytes: usize,
    ) -> Result<(JobLimits, LookupLimits), Error> {
        let refuse = |why: String| Err(Error::new(ErrorKind::Config, why));
        if self.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return refuse("the tier needs a multi-thread runtime: on a current-thread one nobody drives it while its owner blocks".into());
        }
        let bounds = [
            ("transfers_in_flight_max", self.transfers_in_flight_max),
            ("queued_blocks_max", self.queued_blocks_max),
            ("lookup_entries_max", self.lookup_entries_max),
            ("retry.attempts_max", self.retry.attempts_max.into()),
            ("the engine's transfers_in_flight_max", engine.transfers_in_flight_max),
            ("the engine's probes_in_flight_max", engine.probes_in_flight_max),
        ];
        if let Some((name, _)) = bounds.iter().find(|(_, bound)| *bound == 0) {
            return refuse(format!("{name} must be at least 1"));
        }
        let block_bytes = block_bytes as u64;
        if block_bytes > engine.block_bytes_max {
            let (name, max) = (&engine.name, engine.block_bytes_max);
            return refuse(format!("blocks of {block_bytes} bytes are more than {name} can move: {max}"));
        }
        let jobs = JobLimits {
            in_flight_max: self.transfers_in_flight_max.min(engine.transfers_in_flight_max),
            queued_max: self.queued_blocks_max,
            block_bytes,
        };
        let lookups =
            LookupLimits { entries_max: self.lookup_entries_max, in_flight_max: engine.probes_in_flight_max };
        Ok((jobs, lookups))
    }
}
