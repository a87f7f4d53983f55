use std::collections::HashMap;
use std::num::NonZeroU32;

use lru::LruCache;

/// The primary tier: which block is in which slot, least recently used first out.
///
/// A pinned block (being stored) is not evicted until it is unpinned.
#[derive(Debug)]
pub(super) struct Primary {
    free: Vec<u32>,
    idle: LruCache<u64, u32>,
    pinned: HashMap<u64, u32>,
}

impl Primary {
    pub(super) fn new(slots: NonZeroU32) -> Self {
        Self { free: (0..slots.get()).rev().collect(), idle: LruCache::unbounded(), pinned: HashMap::new() }
    }

    /// Whether a block is here.
    pub(super) fn holds(&self, id: u64) -> bool {
        self.idle.contains(&id) || self.pinned.contains_key(&id)
    }

    /// Whether a block is here; if so, it is now the most recently used one.
    pub(super) fn touch(&mut self, id: u64) -> bool {
        self.idle.get(&id).is_some() || self.pinned.contains_key(&id)
    }

    /// A slot for a new block, evicting the least recently used one; `None` if every block is pinned. The slot
    /// comes back with [`insert`](Self::insert), [`insert_pinned`](Self::insert_pinned) or
    /// [`give_back`](Self::give_back).
    pub(super) fn take_slot(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| self.idle.pop_lru().map(|(_, slot)| slot))
    }

    /// A slot that got no block after all.
    pub(super) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    pub(super) fn insert(&mut self, id: u64, slot: u32) {
        self.idle.put(id, slot);
    }

    pub(super) fn insert_pinned(&mut self, id: u64, slot: u32) {
        self.pinned.insert(id, slot);
    }

    /// Drops a pinned block with its slot, which can never be used again.
    pub(super) fn forget(&mut self, id: u64) {
        self.pinned.remove(&id);
    }

    pub(super) fn unpin(&mut self, id: u64) {
        if let Some(slot) = self.pinned.remove(&id) {
            self.idle.put(id, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Primary {
        let mut primary = Primary::new(NonZeroU32::new(2).unwrap());
        for id in [10, 11] {
            let slot = primary.take_slot().unwrap();
            primary.insert(id, slot);
        }
        primary
    }

    /// The least recently used block goes first, and a touch makes a block recent.
    #[test]
    fn the_least_recently_used_block_goes_first() {
        let mut primary = full();
        assert!(primary.touch(10));
        primary.take_slot().unwrap();
        assert!(primary.holds(10));
        assert!(!primary.holds(11));
    }

    /// Pinned blocks are never evicted; with nothing else there is no slot to have.
    #[test]
    fn pinned_blocks_stay() {
        let mut primary = full();
        for id in [20, 21] {
            let slot = primary.take_slot().unwrap();
            primary.insert_pinned(id, slot);
        }
        assert_eq!(primary.take_slot(), None);
        primary.unpin(21);
        let slot = primary.take_slot().unwrap();
        assert!(primary.holds(20));
        assert!(!primary.holds(21));
        primary.give_back(slot);
        assert_eq!(primary.take_slot(), Some(slot));
        primary.forget(20);
        assert!(!primary.holds(20));
        assert_eq!(primary.take_slot(), None, "a forgotten slot does not come back");
    }
}
