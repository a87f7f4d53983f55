use std::io;

use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;
use sha2::{Digest, Sha256};

/// What decides under which names vLLM's object tier stores its blocks: the fields of its `FileMapper`
/// (`vllm/v1/kv_offload/file_mapper.py`, 0.33). Two deployments share blocks exactly if all of it is the same.
///
/// Read from JSON, only `model_name` and `dtype` are required; the other fields default as in
/// [`new`](Self::new), and unknown ones are refused.
///
/// ```
/// use kvtier_core::key::VllmNamespace;
///
/// let json = r#"{"prefix": "kv", "model_name": "org/model", "dtype": "bfloat16", "tp_size": 2}"#;
/// let namespace: VllmNamespace = serde_json::from_str(json)?;
/// assert_eq!(namespace.tokens_per_hash, 16);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VllmNamespace {
    /// The tier's `prefix`; may be empty.
    #[serde(default)]
    pub prefix: String,
    /// `model.name`, such as `meta-llama/Llama-3.1-8B-Instruct`, or a path.
    pub model_name: String,
    /// `model.dtype`, with or without `torch.` before it.
    pub dtype: String,
    /// Tokens behind one block hash.
    #[serde(default = "default_tokens_per_hash")]
    pub tokens_per_hash: u32,
    /// Blocks in one object: vLLM's `blocks_per_chunk`.
    #[serde(default = "one")]
    pub blocks_per_file: u32,
    /// Tensor parallel size.
    #[serde(default = "one")]
    pub tp_size: u32,
    /// Pipeline parallel size.
    #[serde(default = "one")]
    pub pp_size: u32,
    /// Prefill context parallel size.
    #[serde(default = "one")]
    pub pcp_size: u32,
    /// Decode context parallel size.
    #[serde(default = "one")]
    pub dcp_size: u32,
    /// `parallel.rank`; 0 on vLLM's scheduler side, where its tier runs.
    #[serde(default)]
    pub rank: u32,
    /// The KV cache groups, in the configuration's order.
    #[serde(default)]
    pub kv_cache_groups: Vec<VllmGroup>,
    /// Whether blocks are the same whatever the parallel sizes: vLLM's `is_parallelism_agnostic`. Sizes and rank then do
    /// not count.
    #[serde(default)]
    pub parallel_agnostic: bool,
    /// Whether every rank holds the same KV data. Sizes and rank then do not count.
    #[serde(default)]
    pub replicated_layout: bool,
    /// The canonical layout's format, such as `v1-nhd`; `None` for the direct layout.
    #[serde(default)]
    pub canonical_format: Option<String>,
}

/// One KV cache group of a [`VllmNamespace`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VllmGroup {
    /// The layers of the group.
    pub layer_names: Vec<String>,
    /// Tokens in one block of the group.
    pub tokens_per_block: u32,
}

const fn one() -> u32 {
    1
}

const fn default_tokens_per_hash() -> u32 {
    16
}

/// The fields of vLLM's canonical JSON, sorted by name as `sort_keys` does.
#[derive(Serialize)]
struct Fields<'a> {
    blocks_per_file: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical_format: Option<&'a str>,
    dcp_size: u32,
    dtype: &'a str,
    inference_engine: &'static str,
    kv_cache_groups: &'a [VllmGroup],
    model_name: &'a str,
    /// Only ever `false`: agnostic namespaces leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_agnostic: Option<bool>,
    pcp_size: u32,
    pp_size: u32,
    /// Only ever `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    replicated_layout: Option<bool>,
    tokens_per_hash: u32,
    tp_size: u32,
}

impl VllmNamespace {
    /// A namespace without a prefix, for one process, 16 tokens per hash, one block per object, no groups,
    /// and the direct layout.
    pub fn new(model_name: impl Into<String>, dtype: impl Into<String>) -> Self {
        Self {
            prefix: String::new(),
            model_name: model_name.into(),
            dtype: dtype.into(),
            tokens_per_hash: default_tokens_per_hash(),
            blocks_per_file: 1,
            tp_size: 1,
            pp_size: 1,
            pcp_size: 1,
            dcp_size: 1,
            rank: 0,
            kv_cache_groups: Vec::new(),
            parallel_agnostic: false,
            replicated_layout: false,
            canonical_format: None,
        }
    }

    fn is_agnostic(&self) -> bool {
        self.parallel_agnostic || self.replicated_layout
    }

    /// The JSON that vLLM hashes: `json.dumps(fields, sort_keys=True, separators=(",", ":"))`, in ASCII.
    pub fn canonical_json(&self) -> String {
        let size = |size| if self.is_agnostic() { 1 } else { size };
        let dtype = self.dtype.replace("torch.", "");
        let fields = Fields {
            blocks_per_file: self.blocks_per_file,
            canonical_format: self.canonical_format.as_deref(),
            dcp_size: size(self.dcp_size),
            dtype: &dtype,
            inference_engine: "vllm",
            kv_cache_groups: &self.kv_cache_groups,
            model_name: &self.model_name,
            parallel_agnostic: (!self.is_agnostic()).then_some(false),
            pcp_size: size(self.pcp_size),
            pp_size: size(self.pp_size),
            replicated_layout: self.replicated_layout.then_some(true),
            tokens_per_hash: self.tokens_per_hash,
            tp_size: size(self.tp_size),
        };
        let mut json = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut json, Ascii);
        let written = fields.serialize(&mut serializer);
        match (written, String::from_utf8(json)) {
            (Ok(()), Ok(json)) => json,
            _ => unreachable!("plain fields serialize into a vector, as ASCII"),
        }
    }

    /// SHA-256 of the canonical JSON, in lower-case hex. Names carry its first 12 digits.
    pub fn digest(&self) -> String {
        let digest = Sha256::digest(self.canonical_json());
        super::text::Hex::new(&digest).as_str().to_owned()
    }

    /// What every name of the namespace begins with, exactly as vLLM writes it: an empty segment after a
    /// prefix, or a slash at the start without one.
    pub(super) fn raw_base(&self) -> String {
        let root = if self.prefix.is_empty() { "" } else { "/" };
        let model = self.model_name.replace('/', "_");
        let rank = if self.is_agnostic() { 0 } else { self.rank };
        format!("{}{root}/{model}_{}_r{rank}", self.prefix, &self.digest()[..12])
    }
}

/// Compact JSON whose strings are ASCII, as Python's `ensure_ascii` writes them.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        for letter in text.chars() {
            // Python escapes DEL, too, which serde_json leaves to us.
            if letter.is_ascii() && letter != '\x7F' {
                writer.write_all(&[letter as u8])?;
                continue;
            }
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings are escaped as `json.dumps` does; the expected text was printed by Python 3.11.
    #[test]
    fn strings_are_escaped_as_python_does() {
        let odd = "a\"\\/\u{8}\u{c}\n\r\t\0\u{1f}\u{7f}é\u{2028}😀";
        let mut json = Vec::new();
        odd.serialize(&mut serde_json::Serializer::with_formatter(&mut json, Ascii)).unwrap();
        let python = r#""a\"\\/\b\f\n\r\t\u0000\u001f\u007f\u00e9\u2028\ud83d\ude00""#;
        assert_eq!(String::from_utf8(json).unwrap(), python);
    }

    /// Sizes and rank count only where blocks depend on them, and `torch.` never does.
    #[test]
    fn agnostic_namespaces_ignore_parallel_sizes() {
        let mut one = VllmNamespace::new("m", "torch.float16");
        let mut four = VllmNamespace { tp_size: 4, rank: 3, ..VllmNamespace::new("m", "float16") };
        assert_ne!(one.raw_base(), four.raw_base());
        let specific = one.raw_base();
        one.parallel_agnostic = true;
        four.parallel_agnostic = true;
        assert_eq!(one.raw_base(), four.raw_base());
        assert_ne!(one.raw_base(), specific, "agnostic and specific never share names");
        let agnostic = one.raw_base();
        one.replicated_layout = true;
        assert_ne!(one.raw_base(), agnostic, "nor do replicated and agnostic");
        four.canonical_format = Some("v1-nhd".into());
        assert_ne!(four.raw_base(), agnostic, "nor do canonical and direct");
    }

    /// A misspelt field is refused, not ignored.
    #[test]
    fn unknown_fields_are_refused() {
        let json = r#"{"model_name": "m", "dtype": "d", "tp": 2}"#;
        let error = serde_json::from_str::<VllmNamespace>(json).unwrap_err().to_string();
        assert!(error.contains("unknown field `tp`"), "{error}");
    }
}
