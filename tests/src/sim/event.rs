/// One thing that happens to the state machines. Every four bytes are one, so that a fuzzer, a property and a seed
/// speak the same language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A job of `blocks` blocks from this key and this slot on.
    Store(Blocks),
    /// The same, the other way.
    Load(Blocks),
    /// An engine ends the transfer that it holds as number `nth`.
    Complete {
        /// Among those held, modulo their number.
        nth: u8,
        /// How.
        end: End,
    },
    /// An engine answers the probe that it holds as number `nth`.
    Answer {
        /// Among those held, modulo their number.
        nth: u8,
        /// How.
        end: End,
    },
    /// A request asks for a key.
    Lookup {
        /// The request.
        request: u8,
        /// The key.
        key: u8,
    },
    /// The scheduler's step ends.
    EndStep,
    /// A request ends.
    FinishRequest {
        /// The request.
        request: u8,
    },
    /// The oldest running job but `nth` is cancelled.
    Cancel {
        /// Among those running, modulo their number.
        nth: u8,
    },
    /// Everything queued is cancelled, as when the tier drains.
    CancelAll,
    /// Time goes by.
    Advance {
        /// Milliseconds.
        ms: u8,
    },
    /// The caller takes its reports.
    Take,
    /// Somebody else changes an object of the store.
    Plant {
        /// The key.
        key: u8,
        /// Whole, too short, or gone.
        object: Object,
    },
}

/// The blocks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The first key.
    pub key: u8,
    /// The first slot.
    pub slot: u8,
    /// How many.
    pub count: u8,
}

/// How a transfer or a probe ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As the store says.
    Perform,
    /// It may succeed later.
    Temporary,
    /// It will not.
    Permanent,
    /// The engine forgets it.
    Drop,
    /// The engine forgets it, and may touch the slot for ever. For a probe, as `Drop`.
    Lose,
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The block.
    Whole,
    /// Too short.
    Short,
    /// Not there.
    Absent,
}

impl Event {
    /// Bytes of one event.
    pub const BYTES: usize = 4;

    /// The event of these bytes; every combination is one.
    pub fn decode([kind, a, b, c]: [u8; Self::BYTES]) -> Self {
        match kind % 16 {
            0 | 1 => Self::Store(Blocks { key: a, slot: b, count: c }),
            2 | 3 => Self::Load(Blocks { key: a, slot: b, count: c }),
            4..=7 => Self::Complete { nth: a, end: End::decode(b) },
            8 => Self::Answer { nth: a, end: End::decode(b) },
            9 | 10 => Self::Lookup { request: a, key: b },
            11 => Self::EndStep,
            12 => Self::FinishRequest { request: a },
            13 => match a % 8 {
                0..=5 => Self::Cancel { nth: b },
                _ => Self::CancelAll,
            },
            14 => Self::Advance { ms: a },
            _ => match a % 2 {
                0 => Self::Take,
                _ => Self::Plant { key: b, object: Object::decode(c) },
            },
        }
    }

    /// The events of a sequence of bytes; what is left over at the end is none.
    pub fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        let (events, _) = bytes.as_chunks();
        events.iter().map(|bytes| Self::decode(*bytes))
    }
}

impl End {
    fn decode(byte: u8) -> Self {
        match byte % 16 {
            0..=8 => Self::Perform,
            9 | 10 => Self::Temporary,
            11 | 12 => Self::Permanent,
            13 | 14 => Self::Drop,
            _ => Self::Lose,
        }
    }
}

impl Object {
    fn decode(byte: u8) -> Self {
        match byte % 4 {
            0 | 1 => Self::Whole,
            2 => Self::Short,
            _ => Self::Absent,
        }
    }
}
