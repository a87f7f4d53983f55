use super::text::{self, Decimal, Hex};
use super::{KeyMapper, ObjectKey, OffloadKey, VllmNamespace, object_key};
use crate::{Error, ErrorKind};

/// Longest name that follows the base: `/`, 3 digits, `/`, 2 digits, `_g`, group, `/`, hash, `.bin`.
const SUFFIX_BYTES_MAX: usize =
    1 + 3 + 1 + 2 + 2 + text::U32_DIGITS_MAX + 1 + 2 * OffloadKey::HASH_BYTES_MAX + 4;

/// The names under which vLLM's own object tier stores its blocks, so that existing buckets stay valid.
///
/// vLLM 0.33 makes `{root}/{model}_{digest}_r{rank}/{h[0:3]}/{h[3:5]}_g{group}/{h}.bin`, where `h` is the hash in hex and the
/// root brings an empty segment with a prefix (`kv//model...`), and a slash at the start without one: see
/// [`raw_name`](Self::raw_name). Seen on the wire, the AWS SDK under it drops empty segments before it signs and sends, so
/// the object is called what is left: [`object_key`](KeyMapper::object_key).
///
/// ```
/// use kvtier_core::key::VllmNamespace;
/// use kvtier_core::{KeyMapper, OffloadKey, VllmKeys};
///
/// let namespace = VllmNamespace { prefix: "kv".into(), ..VllmNamespace::new("org/model", "bfloat16") };
/// let keys = VllmKeys::new(&namespace)?;
/// let key = OffloadKey::new(&[0x00, 0x01, 0x02], 0)?;
/// assert_eq!(keys.raw_name(&key), "kv//org_model_4db719a5b9c6_r0/000/10_g0/000102.bin");
/// assert_eq!(keys.object_key(&key).as_str(), "kv/org_model_4db719a5b9c6_r0/000/10_g0/000102.bin");
/// # Ok::<(), kvtier_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VllmKeys {
    /// With a slash at the end.
    raw_base: String,
    /// The same without empty segments.
    base: String,
}

impl VllmKeys {
    /// The names of a namespace.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if its prefix or model would make names that break the rule of [`ObjectKey`]: a dot
    /// segment, a control character, or too long.
    pub fn new(namespace: &VllmNamespace) -> Result<Self, Error> {
        let raw_base = namespace.raw_base();
        let segments: Vec<_> = raw_base.split('/').filter(|segment| !segment.is_empty()).collect();
        let base = segments.join("/");
        let refuse = |why: &str| {
            let VllmNamespace { prefix, model_name, .. } = namespace;
            let message =
                format!("prefix {prefix:?} and model {model_name:?} give the name {base:?}, which {why}");
            Err(Error::new(ErrorKind::Config, message))
        };
        if let Some(why) = object_key::broken_rule(&base) {
            return refuse(why);
        }
        if base.len() + SUFFIX_BYTES_MAX > ObjectKey::NAME_BYTES_MAX {
            return refuse("leaves too little room for names of at most 1,024 bytes");
        }
        Ok(Self { raw_base: raw_base + "/", base: base + "/" })
    }

    /// What every object's name begins with, up to its slash, for listings: `kv/org_model_4db719a5b9c6_r0/`.
    pub fn prefix(&self) -> &str {
        &self.base
    }

    /// vLLM's own string for a block, byte for byte, empty segments included.
    pub fn raw_name(&self, key: &OffloadKey) -> String {
        render(&self.raw_base, key)
    }
}

impl KeyMapper for VllmKeys {
    fn object_key(&self, key: &OffloadKey) -> ObjectKey {
        ObjectKey::proved(render(&self.base, key))
    }

    fn offload_key(&self, key: &ObjectKey) -> Option<OffloadKey> {
        let mut segments = key.as_str().strip_prefix(&self.base)?.split('/');
        let (Some(_), Some(middle), Some(file), None) =
            (segments.next(), segments.next(), segments.next(), segments.next())
        else {
            return None;
        };
        let hash = text::from_hex(file.strip_suffix(".bin")?)?;
        let group = text::from_decimal(middle.split_once("_g")?.1)?;
        let offload_key = OffloadKey::new(&hash, group).ok()?;
        // The first two segments repeat digits of the hash: only the name made from it is right.
        (self.object_key(&offload_key) == *key).then_some(offload_key)
    }
}

fn render(base: &str, key: &OffloadKey) -> String {
    let (hex, group) = (Hex::new(key.hash()), Decimal::new(key.group()));
    let hex = hex.as_str();
    // As Python slices: what a short hash does not have is left out.
    let (first, rest) = hex.split_at(hex.len().min(3));
    let second = &rest[..rest.len().min(2)];
    text::concat([base, first, "/", second, "_g", group.as_str(), "/", hex, ".bin"])
}

#[cfg(test)]
#[path = "vllm_tests.rs"]
mod tests;
