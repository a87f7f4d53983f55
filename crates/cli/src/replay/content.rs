use kvtier::OffloadKey;
use sha2::{Digest, Sha256};

/// What stands for computed KV data: keys and bytes that follow from a workload's name and a block's id.
#[derive(Clone, Debug)]
pub(super) struct Content {
    workload: Sha256,
}

impl Content {
    /// Workloads of different names have different keys, even where their ids are the same.
    pub(super) fn new(workload: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(b"kvtier replay\0");
        hasher.update(workload);
        hasher.update(b"\0");
        Self { workload: hasher }
    }

    /// The key of a block.
    pub(super) fn key(&self, id: u64) -> OffloadKey {
        let hash = self.workload.clone().chain_update(id.to_be_bytes()).finalize();
        match OffloadKey::new(&hash, 0) {
            Ok(key) => key,
            Err(error) => unreachable!("a SHA-256 hash has 32 bytes: {error}"),
        }
    }
}

/// Fills `block` with the bytes that belong to `key`: a `SplitMix64` sequence (Steele, Lea and Flood,
/// OOPSLA 2014), so that any two blocks differ nearly everywhere.
pub(super) fn fill(key: &OffloadKey, block: &mut [u8]) {
    let mut seed = [0; 8];
    seed.copy_from_slice(&key.hash()[..8]);
    let mut state = u64::from_be_bytes(seed);
    for chunk in block.chunks_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys and bytes depend on the workload and the id, and on nothing else.
    #[test]
    fn content_follows_from_workload_and_id() {
        let bytes = |workload: &str, id| {
            let mut block = vec![0; 1001];
            fill(&Content::new(workload).key(id), &mut block);
            block
        };
        assert_eq!(bytes("a", 1), bytes("a", 1));
        for other in [bytes("a", 2), bytes("b", 1)] {
            let same = bytes("a", 1).iter().zip(&other).filter(|(left, right)| left == right).count();
            assert!(same < 50, "{same} of 1001 bytes are the same; 4 are expected");
        }
    }
}
