use std::time::Duration;

/// How patient and how thorough a run is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SuiteOptions {
    /// Longest wait for anything that has to happen. Default 30 s.
    pub patience: Duration,
    /// How long after a completion a slot is watched for a stray write. Default 100 ms, plus the engine's close.
    pub watch: Duration,
    /// Blocks of the largest batch. Default 1,000.
    pub batch_max: u32,
    /// Bytes of the largest block. Default 1 MiB and 1 byte.
    pub block_bytes_max: usize,
}

impl Default for SuiteOptions {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(30),
            watch: Duration::from_millis(100),
            batch_max: 1000,
            block_bytes_max: (1 << 20) + 1,
        }
    }
}
