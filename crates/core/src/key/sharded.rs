use super::text::{self, Decimal, Hex};
use super::{KeyMapper, ObjectKey, OffloadKey, object_key};
use crate::{Error, ErrorKind};

/// Longest name that follows the prefix: `/`, shard, `/`, hash, `_g`, group, `.bin`.
const SUFFIX_BYTES_MAX: usize = 1 + 2 + 1 + 2 * OffloadKey::HASH_BYTES_MAX + 2 + text::U32_DIGITS_MAX + 4;

/// kvtier's own layout: `{prefix}/{shard}/{hash}_g{group}.bin`, with the hash in lower-case hex.
///
/// The namespace comes first, so that lifecycle rules and listings can name it. The shard is the last byte of the hash:
/// 256 key ranges over which a store can spread the load, evenly because hashes are uniform in every byte.
///
/// ```
/// use kvtier_core::{KeyMapper, OffloadKey, ShardedKeys};
///
/// let keys = ShardedKeys::new("prod/llama")?;
/// let key = OffloadKey::new(&[0x01, 0x02, 0x03], 5)?;
/// assert_eq!(keys.object_key(&key).as_str(), "prod/llama/03/010203_g5.bin");
/// # Ok::<(), kvtier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardedKeys {
    /// The prefix and a slash, or nothing.
    base: String,
}

impl ShardedKeys {
    /// Names under `prefix`, which may be empty, or have several segments.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if names under the prefix would break the rule of [`ObjectKey`]: an empty or dot segment, a
    /// slash at an end, a control character, or too long.
    pub fn new(prefix: &str) -> Result<Self, Error> {
        if prefix.is_empty() {
            return Ok(Self { base: String::new() });
        }
        let refuse = |why: &str| Err(Error::new(ErrorKind::Config, format!("the prefix {prefix:?} {why}")));
        if let Some(why) = object_key::broken_rule(prefix) {
            return refuse(why);
        }
        if prefix.len() + SUFFIX_BYTES_MAX > ObjectKey::NAME_BYTES_MAX {
            return refuse("leaves too little room for names of at most 1,024 bytes");
        }
        Ok(Self { base: format!("{prefix}/") })
    }

    /// What every name begins with, for listings and lifecycle rules: the prefix and a slash, so that `kv/` does not
    /// also mean `kv2/`; empty without a prefix.
    pub fn prefix(&self) -> &str {
        &self.base
    }
}

impl KeyMapper for ShardedKeys {
    fn object_key(&self, key: &OffloadKey) -> ObjectKey {
        let (hex, group) = (Hex::new(key.hash()), Decimal::new(key.group()));
        let hex = hex.as_str();
        let shard = &hex[hex.len() - 2..];
        let name = text::concat([&self.base, shard, "/", hex, "_g", group.as_str(), ".bin"]);
        ObjectKey::proved(name)
    }

    fn offload_key(&self, key: &ObjectKey) -> Option<OffloadKey> {
        let (shard, file) = key.as_str().strip_prefix(&self.base)?.split_once('/')?;
        let (hex, group) = file.strip_suffix(".bin")?.split_once("_g")?;
        let offload_key = OffloadKey::new(&text::from_hex(hex)?, text::from_decimal(group)?).ok()?;
        (shard == &hex[hex.len() - 2..]).then_some(offload_key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(keys: &ShardedKeys, hash: &[u8], group: u32) -> String {
        keys.object_key(&OffloadKey::new(hash, group).unwrap()).as_str().to_owned()
    }

    /// The layout is frozen: existing objects are found under these names.
    #[test]
    fn the_layout_is_frozen() {
        let keys = ShardedKeys::new("a/b").unwrap();
        assert_eq!(name(&keys, &[0xAB], 0), "a/b/ab/ab_g0.bin");
        assert_eq!(name(&keys, &[0x12, 0xEF], u32::MAX), "a/b/ef/12ef_g4294967295.bin");
        assert_eq!(keys.prefix(), "a/b/");
        let bare = ShardedKeys::new("").unwrap();
        assert_eq!(name(&bare, &[0xAB], 1), "ab/ab_g1.bin");
        assert_eq!(bare.prefix(), "");
    }

    /// A prefix that would break the rule for object names is refused when the mapper is made.
    #[test]
    fn bad_prefixes_are_config_errors() {
        let longest = "p".repeat(ObjectKey::NAME_BYTES_MAX - SUFFIX_BYTES_MAX);
        let full = name(&ShardedKeys::new(&longest).unwrap(), &[0xFF; 64], u32::MAX);
        assert_eq!(full.len(), ObjectKey::NAME_BYTES_MAX);
        for bad in ["/", "/a", "a/", "a//b", "..", "a/./b", "a\0", &(longest + "p")] {
            assert_eq!(ShardedKeys::new(bad).unwrap_err().kind(), ErrorKind::Config, "{bad}");
        }
    }

    /// Names that the mapper does not make are nobody's, also when they are nearly right.
    #[test]
    fn foreign_names_have_no_block() {
        let keys = ShardedKeys::new("kv").unwrap();
        for foreign in [
            "kv",
            "kv/ab",
            "kv/ab/ab.bin",
            "kv/ab/ab_g0",
            "kv/AB/AB_g0.bin",
            "kv/ab/ab_g00.bin",
            "kv/ab/ab_g.bin",
            "kv/ac/ab_g0.bin",
            "kv/ab/a_g0.bin",
            "kv/ab/_g0.bin",
            "kv/ab/x/ab_g0.bin",
            "kw/ab/ab_g0.bin",
            "kv/ab/ab_g4294967296.bin",
        ] {
            assert_eq!(keys.offload_key(&ObjectKey::new(foreign).unwrap()), None, "{foreign}");
        }
    }

    proptest! {
        /// Every key comes back from its name, so no two keys share one. Replay: the failing case is in the regressions file.
        #[test]
        fn names_are_injective(
            prefix in "([a-zé ]{1,9}(/[a-z]{1,9}){0,2})?",
            hash in prop::collection::vec(any::<u8>(), 1..=64),
            group in any::<u32>(),
        ) {
            let keys = ShardedKeys::new(&prefix).unwrap();
            let key = OffloadKey::new(&hash, group).unwrap();
            let object = keys.object_key(&key);
            prop_assert_eq!(keys.offload_key(&object), Some(key));
            prop_assert!(object.as_str().starts_with(keys.prefix()));
            prop_assert_eq!(ObjectKey::new(object.as_str()).unwrap(), object);
        }
    }
}
