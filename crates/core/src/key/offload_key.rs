use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::{Error, ErrorKind};

/// What identifies a block's content: its hash (1 to 64 bytes) and the index of its KV group.
///
/// On the wire it is `hash || group as u32 big-endian`, as in vLLM's `make_offload_key`
/// (`vllm/v1/kv_offload`, 0.33); comparison, order and hash are those of the wire form. 69 bytes, without
/// a heap allocation, so that a million of them are one vector.
///
/// ```
/// use kvtier_core::OffloadKey;
///
/// let key = OffloadKey::new(&[0x00, 0xFF], 258)?;
/// assert_eq!(key.as_wire(), [0x00, 0xFF, 0x00, 0x00, 0x01, 0x02]);
/// assert_eq!(OffloadKey::from_wire(key.as_wire())?, key);
/// assert_eq!(key.to_string(), "00ff_g258");
/// # Ok::<(), kvtier_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct OffloadKey {
    wire_bytes: u8,
    wire: [u8; OffloadKey::WIRE_BYTES_MAX],
}

impl OffloadKey {
    /// Longest hash: that of SHA-512.
    pub const HASH_BYTES_MAX: usize = 64;
    /// Bytes of the group at the end of the wire form.
    pub const GROUP_BYTES: usize = 4;
    const WIRE_BYTES_MAX: usize = Self::HASH_BYTES_MAX + Self::GROUP_BYTES;

    /// The key of a block's hash in a KV group.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the hash is empty or longer than [`HASH_BYTES_MAX`](Self::HASH_BYTES_MAX).
    pub fn new(hash: &[u8], group: u32) -> Result<Self, Error> {
        if hash.is_empty() || hash.len() > Self::HASH_BYTES_MAX {
            let (bytes, max) = (hash.len(), Self::HASH_BYTES_MAX);
            let message = format!("a block hash has 1 to {max} bytes, not {bytes}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let wire_bytes = hash.len() + Self::GROUP_BYTES;
        let mut wire = [0; Self::WIRE_BYTES_MAX];
        wire[..hash.len()].copy_from_slice(hash);
        wire[hash.len()..wire_bytes].copy_from_slice(&group.to_be_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "at most 68")]
        let wire_bytes = wire_bytes as u8;
        Ok(Self { wire_bytes, wire })
    }

    /// Reads the wire form.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it is not 5 to 68 bytes long.
    pub fn from_wire(wire: &[u8]) -> Result<Self, Error> {
        if let Some((hash, group)) = wire.split_last_chunk() {
            return Self::new(hash, u32::from_be_bytes(*group));
        }
        let message = format!("{} bytes are no block key: it ends with a group of 4 bytes", wire.len());
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// The wire form.
    pub fn as_wire(&self) -> &[u8] {
        &self.wire[..usize::from(self.wire_bytes)]
    }

    /// The hash.
    pub fn hash(&self) -> &[u8] {
        &self.wire[..usize::from(self.wire_bytes) - Self::GROUP_BYTES]
    }

    /// The KV group's index.
    pub fn group(&self) -> u32 {
        let mut group = [0; Self::GROUP_BYTES];
        group.copy_from_slice(&self.as_wire()[self.hash().len()..]);
        u32::from_be_bytes(group)
    }
}

impl TryFrom<&[u8]> for OffloadKey {
    type Error = Error;

    fn try_from(wire: &[u8]) -> Result<Self, Error> {
        Self::from_wire(wire)
    }
}

impl PartialEq for OffloadKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_wire() == other.as_wire()
    }
}

impl Eq for OffloadKey {}

impl Hash for OffloadKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_wire().hash(state);
    }
}

impl PartialOrd for OffloadKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OffloadKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_wire().cmp(other.as_wire())
    }
}

impl fmt::Display for OffloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in OffloadKey::hash(self) {
            write!(f, "{byte:02x}")?;
        }
        write!(f, "_g{}", self.group())
    }
}

impl fmt::Debug for OffloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OffloadKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes of every length keep their bytes and their group; two keys differ if either does.
    #[test]
    fn every_length_survives_the_wire() {
        let mut seen = std::collections::HashSet::new();
        for bytes in 1..=OffloadKey::HASH_BYTES_MAX {
            for group in [0, 1, u32::MAX] {
                let hash = vec![0xA5; bytes];
                let key = OffloadKey::new(&hash, group).unwrap();
                assert_eq!((key.hash(), key.group()), (&hash[..], group));
                assert_eq!(OffloadKey::from_wire(key.as_wire()).unwrap(), key);
                assert!(seen.insert(key));
            }
        }
    }

    /// Keys sort as their wire forms do, whatever is behind them in the array, and are as small as promised.
    #[test]
    fn order_is_that_of_the_wire() {
        let hashes: [&[u8]; 5] = [&[0], &[0, 0], &[0, 1], &[1], &[0xFF; 64]];
        let keys =
            hashes.iter().flat_map(|hash| [0, 1, 256, u32::MAX].map(|group| OffloadKey::new(hash, group)));
        let mut keys: Vec<_> = keys.collect::<Result<_, _>>().unwrap();
        let mut wires: Vec<_> = keys.iter().map(|key| key.as_wire().to_vec()).collect();
        keys.sort_unstable();
        wires.sort_unstable();
        assert!(keys.iter().map(OffloadKey::as_wire).eq(wires.iter().map(Vec::as_slice)));
        assert_eq!(size_of::<OffloadKey>(), 69);
    }

    /// Hashes that are empty or too long are refused, on the wire, too.
    #[test]
    fn impossible_lengths_are_refused() {
        for bad in [0, 65] {
            assert_eq!(OffloadKey::new(&vec![0; bad], 0).unwrap_err().kind(), ErrorKind::Unsupported);
        }
        for bad in [0, 3, 4, 69] {
            assert_eq!(OffloadKey::from_wire(&vec![0; bad]).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }
}
