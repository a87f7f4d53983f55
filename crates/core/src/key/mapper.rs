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
///
/// What all names of a mapper begin with is not asked here: a mapper may spread its names over the whole bucket, and the
/// tier never lists. Mappers with a namespace have a method of their own, such as
/// [`ShardedKeys::prefix`](super::ShardedKeys::prefix).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ShardedKeys;

    /// A mapper behind pointers, chosen at run time, names blocks as the mapper itself does.
    #[test]
    fn pointers_forward_to_the_mapper() {
        let keys = ShardedKeys::new("kv").unwrap();
        let pointer: Box<dyn KeyMapper> = Box::new(Arc::new(keys.clone()) as Arc<dyn KeyMapper>);
        let key = OffloadKey::new(&[0xAB, 0xCD], 3).unwrap();
        let name = keys.object_key(&key);
        assert_eq!(KeyMapper::object_key(&pointer, &key), name);
        assert_eq!(KeyMapper::offload_key(&pointer, &name), Some(key));
    }
}
