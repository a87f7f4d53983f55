use std::fmt;
use std::sync::Arc;

use super::{ObjectKey, OffloadKey};

/// How blocks are named in the bucket.
///
/// # Contract
/// - **Total**: every [`OffloadKey`] has a name.
/// - **Pure**: the same key always has the same name; nothing but the mapper's own construction decides it.
/// - **Injective**: two different keys never have the same name.
/// - **Inverse**: `offload_key(&object_key(&key)) == Some(key)`, and `offload_key` answers `None` for every name that
///   `object_key` does not make, other spellings of its own names included.
///
/// A layout is frozen once objects exist under it: a change is a new mapper, not an edit.
pub trait KeyMapper: fmt::Debug + Send + Sync + 'static {
    /// The name of a block's object.
    fn object_key(&self, key: &OffloadKey) -> ObjectKey;

    /// The block that an object of this name holds; `None` for a name that this mapper does not make.
    fn offload_key(&self, key: &ObjectKey) -> Option<OffloadKey>;
}

/// Forwards every method to what a pointer points to.
macro_rules! forward_mapper {
    ($pointer:ident) => {
        #[deny(clippy::missing_trait_methods)]
        impl<T: KeyMapper + ?Sized> KeyMapper for $pointer<T> {
            fn object_key(&self, key: &OffloadKey) -> ObjectKey {
                (**self).object_key(key)
            }
            fn offload_key(&self, key: &ObjectKey) -> Option<OffloadKey> {
                (**self).offload_key(key)
            }
        }
    };
}

forward_mapper!(Arc);
forward_mapper!(Box);
