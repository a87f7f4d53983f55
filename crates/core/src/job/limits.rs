/// Bounds of a [`JobMachine`](super::JobMachine).
#[derive(Clone, Copy, Debug)]
pub struct JobLimits {
    /// Most transfers out at a time.
    pub in_flight_max: u32,
    /// Most blocks waiting to be launched.
    pub queued_max: u32,
    /// Bytes of one block, for reports.
    pub block_bytes: u64,
}

/// How much a [`JobMachine`](super::JobMachine) holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Jobs accepted and not finished.
    pub running: usize,
    /// Blocks waiting to be launched, those in backoff included.
    pub queued: u32,
    /// Blocks handed out and not settled.
    pub in_flight: u32,
}
