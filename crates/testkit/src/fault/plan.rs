use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What a [`FaultProxy`](super::FaultProxy) does to one request or its answer.
///
/// Lengths count bytes of the answer's body. Faults of the body leave answers that are not 200 or 206 alone.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing.
    None,
    /// The answer comes so much later.
    Delay(Duration),
    /// The body comes so much later than the headers.
    DelayBody(Duration),
    /// The body comes at so many bytes per second, in pieces every 10 ms.
    Bandwidth(u64),
    /// The body comes in pieces of `bytes`, `pause` apart.
    Drip {
        /// Bytes of one piece.
        bytes: usize,
        /// Between two pieces.
        pause: Duration,
    },
    /// No answer ever; the connection stays open.
    Hold,
    /// The headers and so many bytes, then nothing ever.
    Stall(usize),
    /// The headers promise everything; after so many bytes the connection is closed.
    Cut(usize),
    /// The connection is closed instead of an answer.
    Reset,
    /// The object has only so many bytes, and says so.
    Truncate(usize),
    /// The object has so many bytes more, as far as the client asked for them.
    Extend(usize),
    /// The range is ignored: 200, with so many bytes more than the object has.
    Whole(usize),
    /// The first so many bytes are missing, and the length says so.
    Shift(usize),
    /// One bit of the byte at this place is flipped.
    Flip(usize),
    /// So many bytes without a length, up to the end of the connection.
    CloseDelimited(usize),
    /// So many bytes in chunks, and the end of the connection before the last chunk.
    ChunkedCut(usize),
    /// This status instead of an answer; the store sees no request.
    Status {
        /// The HTTP status.
        status: u16,
        /// S3's error code; an empty one for a body of zeros.
        code: &'static str,
        /// At least so many bytes of body.
        body_bytes: usize,
    },
    /// A redirect to this place.
    Redirect(String),
    /// The upload is acknowledged and thrown away.
    Swallow,
    /// The body of the upload is not read, and nothing is answered.
    StallUpload,
}

impl Fault {
    /// S3's answer with this status and code, and a body as short as it is.
    pub const fn refuse(status: u16, code: &'static str) -> Self {
        Self::Status { status, code, body_bytes: 0 }
    }
}

/// Which requests have which fault.
#[derive(Clone, Debug)]
pub struct FaultRule {
    key: String,
    methods: Vec<&'static str>,
    faults: Vec<Fault>,
    is_for_ever: bool,
}

impl FaultRule {
    /// For requests whose decoded path contains `key`: the first has the first fault, and so on; after the last
    /// one, none.
    pub fn sequence(key: impl Into<String>, faults: impl Into<Vec<Fault>>) -> Self {
        Self { key: key.into(), methods: Vec::new(), faults: faults.into(), is_for_ever: false }
    }

    /// For every request whose decoded path contains `key`: the same fault.
    pub fn always(key: impl Into<String>, fault: Fault) -> Self {
        Self { is_for_ever: true, ..Self::sequence(key, [fault]) }
    }

    /// Only for these methods, written in capitals.
    #[must_use]
    pub fn methods(mut self, methods: impl Into<Vec<&'static str>>) -> Self {
        self.methods = methods.into();
        self
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn covers(&self, method: &str, path: &str) -> bool {
        path.contains(&self.key) && (self.methods.is_empty() || self.methods.contains(&method))
    }

    /// The fault of the request that comes after `before` others.
    pub(super) fn fault(&self, before: usize) -> Fault {
        let at = if self.is_for_ever { 0 } else { before };
        self.faults.get(at).cloned().unwrap_or(Fault::None)
    }
}

/// Faults by chance. What happens to a request follows from the seed, its method, its path and how often it was
/// asked, so that the same workload has the same faults.
#[derive(Clone, Debug)]
pub struct FaultRates {
    /// Where chance comes from.
    pub seed: u64,
    /// How often each fault happens, from 0 to 1; together at most 1.
    pub rates: Vec<(f64, Fault)>,
}

impl FaultRates {
    pub(super) fn fault(&self, method: &str, path: &str, before: usize) -> Fault {
        // FNV-1a: any mixing does, as long as it is the same everywhere.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let request = method.bytes().chain([0]).chain(path.bytes()).chain(before.to_le_bytes());
        let seed = request.fold(self.seed ^ 0xcbf2_9ce4_8422_2325, mix);
        let draw = f64::from(ChaCha8Rng::seed_from_u64(seed).next_u32()) / f64::from(u32::MAX);
        let mut reach = 0.0;
        for (rate, fault) in &self.rates {
            reach += rate;
            if draw < reach {
                return fault.clone();
            }
        }
        Fault::None
    }
}
