use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use kvtier_core::ObjectKey;
use parking_lot::Mutex;

/// The objects behind mock engines: a handle, whose clones share one store.
///
/// A test plants what it likes here, objects that are too short, too long or wrong included.
#[derive(Clone, Default)]
pub struct MockStore {
    objects: Arc<Mutex<HashMap<ObjectKey, Bytes>>>,
}

impl MockStore {
    /// Puts an object, and returns the one that it replaces.
    pub fn insert(&self, key: ObjectKey, object: impl Into<Bytes>) -> Option<Bytes> {
        let object = object.into();
        self.objects.lock().insert(key, object)
    }

    /// The object's bytes, shared, not copied.
    pub fn get(&self, key: &ObjectKey) -> Option<Bytes> {
        self.objects.lock().get(key).cloned()
    }

    /// Takes an object out of the store.
    pub fn remove(&self, key: &ObjectKey) -> Option<Bytes> {
        self.objects.lock().remove(key)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.objects.lock().len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of all objects, sorted.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let mut keys: Vec<_> = self.objects.lock().keys().cloned().collect();
        keys.sort_unstable();
        keys
    }
}

impl fmt::Debug for MockStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockStore").field("objects", &self.len()).finish()
    }
}
