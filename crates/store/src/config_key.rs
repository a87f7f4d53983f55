use std::fmt;
use std::str::FromStr;

use kvtier_core::{Error, ErrorKind};

/// Every option of a [`StoreConfig`](crate::StoreConfig), by the name that users write.
///
/// The names that vLLM's object tier already has in its `store_config` keep their name and meaning here.
/// Names are the same in JSON, in `key=value` pairs and in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ConfigKey {
    /// `bucket`: name of the bucket. Required for S3, here or in the URL.
    Bucket,
    /// `endpoint_override` (also `endpoint`): `host`, `host:port` or `http(s)://host[:port]` of an
    /// S3-compatible server. Default: AWS, `s3.{region}.amazonaws.com`. Never taken from the environment.
    EndpointOverride,
    /// `access_key`: the access key id; needs `secret_key`. Without both, the default credential chain
    /// is used: environment, web identity, container, instance metadata.
    AccessKey,
    /// `secret_key`: the secret access key; needs `access_key`.
    SecretKey,
    /// `session_token`: token of temporary credentials; needs `access_key` and `secret_key`.
    SessionToken,
    /// `region`: default `AWS_REGION`, then `AWS_DEFAULT_REGION`, then `us-east-1`.
    Region,
    /// `scheme`: `http` or `https`. Default: what `endpoint_override` says, `http` if it says nothing (as in
    /// vLLM), `https` for AWS.
    Scheme,
    /// `ca_bundle`: path of a PEM file; its certificates are the only ones trusted, instead of the
    /// system's.
    CaBundle,
    /// `use_virtual_addressing`: the bucket goes into the host name (`true`) or into the path (`false`). Default:
    /// `true` for AWS unless the bucket's name has a dot, `false` for `endpoint_override`.
    UseVirtualAddressing,
    /// `unsigned_payload`: `true` leaves the body out of the signature, which saves hashing it (about 0.6 ms per
    /// MiB) and leaves its integrity to TCP or TLS. Default `false`.
    UnsignedPayload,
    /// `request_timeout`: longest time for one request including its body. Default 30 s.
    RequestTimeout,
    /// `connect_timeout`: longest time to open a TCP connection. Default 5 s. Name resolution and TLS count towards
    /// `request_timeout` alone.
    ConnectTimeout,
    /// `concurrency`: most transfers in flight, from 1 to 4096. Default 64.
    Concurrency,
    /// `lookup_concurrency`: most lookups in flight, from 1 to 4096. Default 64.
    LookupConcurrency,
    /// `lookup_403_is_absent`: a lookup answered with 403 counts as "absent". For credentials without the right to
    /// list the bucket, to which S3 denies that a missing object is missing. Default `false`.
    Lookup403IsAbsent,
    /// `probe_key`: name of the object that [`probe`](kvtier_core::TransferEngine::probe) asks for and that should
    /// not exist. Default `kvtier-probe`, after the URL's prefix if it has one. For credentials bound to a prefix.
    ProbeKey,
    /// `num_threads` (NIXL): threads that run transfers, from 1 to 25, the connections that its client opens at most.
    /// Default 16.
    NumThreads,
    /// `lookup_threads` (NIXL): threads that run lookups, from 1 to 25. Default 8.
    LookupThreads,
    /// `req_checksum` (NIXL): `supported` sends a CRC64 in a trailer, which needs aws-chunked uploads; `required` sends a
    /// plain body with its SHA-256 signed, which every server understands. Default `required` with
    /// `endpoint_override`, else what NIXL does by itself (`supported`).
    ReqChecksum,
    /// `resp_checksum` (NIXL): `supported` verifies a checksum that the server sends, `required` does not ask for
    /// one. Default: what NIXL does by itself (`supported`).
    RespChecksum,
    /// `zero_copy` (NIXL): `true` hands the slots themselves to NIXL instead of staging buffers. Saves a copy; then
    /// nothing in flight can be given up, and objects that are too long are not noticed. Default `false`.
    ZeroCopy,
    /// `staging_bytes` (NIXL): most bytes of staging buffers, which bounds the blocks in flight besides
    /// `concurrency`. Default 256 MiB.
    StagingBytes,
    /// `nixl_library` (NIXL): path of `libnixl_capi.so`, or of its folder. Default: the environment variable
    /// `KVTIER_NIXL_LIBRARY`, then an installed Python package `nixl-cu12` or `nixl-cu13`, then the loader's own search.
    NixlLibrary,
    /// `backend_params` (NIXL): more parameters for NIXL's OBJ backend, as a JSON object of texts. Not checked, but for
    /// those that are known to break the engine's promises, which are refused.
    BackendParams,
}

/// Who reads a [`StoreConfig`](crate::StoreConfig).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigUser {
    /// The object_store engine on S3.
    ObjectStoreS3,
    /// The object_store engine on a directory, memory, or somebody's own store.
    ObjectStoreOther,
    /// The NIXL engine.
    Nixl,
}

impl ConfigKey {
    /// Every key, in the order of the documentation.
    pub const ALL: [Self; 24] = [
        Self::Bucket,
        Self::EndpointOverride,
        Self::AccessKey,
        Self::SecretKey,
        Self::SessionToken,
        Self::Region,
        Self::Scheme,
        Self::CaBundle,
        Self::UseVirtualAddressing,
        Self::UnsignedPayload,
        Self::RequestTimeout,
        Self::ConnectTimeout,
        Self::Concurrency,
        Self::LookupConcurrency,
        Self::Lookup403IsAbsent,
        Self::ProbeKey,
        Self::NumThreads,
        Self::LookupThreads,
        Self::ReqChecksum,
        Self::RespChecksum,
        Self::ZeroCopy,
        Self::StagingBytes,
        Self::NixlLibrary,
        Self::BackendParams,
    ];

    /// The key's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::EndpointOverride => "endpoint_override",
            Self::AccessKey => "access_key",
            Self::SecretKey => "secret_key",
            Self::SessionToken => "session_token",
            Self::Region => "region",
            Self::Scheme => "scheme",
            Self::CaBundle => "ca_bundle",
            Self::UseVirtualAddressing => "use_virtual_addressing",
            Self::UnsignedPayload => "unsigned_payload",
            Self::RequestTimeout => "request_timeout",
            Self::ConnectTimeout => "connect_timeout",
            Self::Concurrency => "concurrency",
            Self::LookupConcurrency => "lookup_concurrency",
            Self::Lookup403IsAbsent => "lookup_403_is_absent",
            Self::ProbeKey => "probe_key",
            Self::NumThreads => "num_threads",
            Self::LookupThreads => "lookup_threads",
            Self::ReqChecksum => "req_checksum",
            Self::RespChecksum => "resp_checksum",
            Self::ZeroCopy => "zero_copy",
            Self::StagingBytes => "staging_bytes",
            Self::NixlLibrary => "nixl_library",
            Self::BackendParams => "backend_params",
        }
    }

    /// Other names for the same key.
    pub const fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::EndpointOverride => &["endpoint"],
            _ => &[],
        }
    }

    /// What values the key takes, in words, for messages and help texts.
    pub const fn expects(self) -> &'static str {
        match self {
            Self::Bucket => "the name of a bucket",
            Self::EndpointOverride => "host, host:port, http://host[:port] or https://host[:port]",
            Self::AccessKey | Self::SecretKey | Self::SessionToken => "visible ASCII characters",
            Self::Region => "the name of a region",
            Self::Scheme => "http or https",
            Self::CaBundle => "the path of a PEM file",
            Self::UseVirtualAddressing | Self::UnsignedPayload | Self::Lookup403IsAbsent | Self::ZeroCopy => {
                "true or false"
            }
            Self::RequestTimeout | Self::ConnectTimeout => {
                "a duration above zero and up to one day: 30s, 500ms or a number of seconds"
            }
            Self::Concurrency | Self::LookupConcurrency => "a whole number from 1 to 4096",
            Self::ProbeKey => "the name of an object",
            Self::NumThreads | Self::LookupThreads => "a whole number from 1 to 25",
            Self::ReqChecksum | Self::RespChecksum => "supported or required",
            Self::StagingBytes => "a whole number of bytes from 1024 to 2^40",
            Self::NixlLibrary => "the path of libnixl_capi.so",
            Self::BackendParams => "a JSON object of texts",
        }
    }

    /// Whether the value must never be shown.
    pub const fn is_secret(self) -> bool {
        matches!(self, Self::AccessKey | Self::SecretKey | Self::SessionToken)
    }

    /// Whether the key means something to `user`.
    pub const fn is_for(self, user: ConfigUser) -> bool {
        match self {
            Self::RequestTimeout
            | Self::Concurrency
            | Self::LookupConcurrency
            | Self::Lookup403IsAbsent
            | Self::ProbeKey => true,
            Self::Bucket
            | Self::EndpointOverride
            | Self::AccessKey
            | Self::SecretKey
            | Self::SessionToken
            | Self::Region
            | Self::Scheme
            | Self::CaBundle
            | Self::UseVirtualAddressing => !matches!(user, ConfigUser::ObjectStoreOther),
            Self::UnsignedPayload | Self::ConnectTimeout => matches!(user, ConfigUser::ObjectStoreS3),
            Self::NumThreads
            | Self::LookupThreads
            | Self::ReqChecksum
            | Self::RespChecksum
            | Self::ZeroCopy
            | Self::StagingBytes
            | Self::NixlLibrary
            | Self::BackendParams => matches!(user, ConfigUser::Nixl),
        }
    }

    fn nearest(name: &str) -> Self {
        let likeness = |key: &Self| {
            let names = [key.as_str()].into_iter().chain(key.aliases().iter().copied());
            names.map(|known| strsim::jaro_winkler(name, known)).fold(0.0, f64::max)
        };
        let mut nearest = Self::Bucket;
        for key in Self::ALL {
            if likeness(&key) > likeness(&nearest) {
                nearest = key;
            }
        }
        nearest
    }
}

impl fmt::Display for ConfigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ConfigKey {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = |key: &Self| key.as_str() == name || key.aliases().contains(&name);
        Self::ALL.into_iter().find(known).ok_or_else(|| {
            let nearest = Self::nearest(name);
            // Somebody may have forgotten the key of a secret, and an encoded one often has a `=` in it.
            let shown = if looks_like_a_name(name) { format!(" `{name}`") } else { String::new() };
            Error::new(ErrorKind::Config, format!("unknown option{shown}; did you mean `{nearest}`?"))
        })
    }
}

/// Lower-case words, as options are called, or one of them in another case. Encoded secrets hold digits and capitals.
fn looks_like_a_name(text: &str) -> bool {
    const NAME_BYTES_MAX: usize = 40;
    let is_lower = text.len() <= NAME_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || b"_-".contains(&byte));
    is_lower || ConfigKey::ALL.iter().any(|key| key.as_str().eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What may be a secret without its key is not shown.
    #[test]
    fn a_forgotten_key_shows_no_secret() {
        for secret in ["FwoGZXIvYXdzSECRETTOKEN", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG"] {
            let error = secret.parse::<ConfigKey>().unwrap_err();
            assert!(!error.to_string().contains(secret), "{error}");
        }
    }

    /// Each key is found by its name and by each alias, and `ALL` has no key twice.
    #[test]
    fn names_lead_to_their_key() {
        let mut seen = std::collections::BTreeSet::new();
        for key in ConfigKey::ALL {
            for name in [key.as_str()].iter().chain(key.aliases()) {
                assert_eq!(name.parse::<ConfigKey>().unwrap(), key);
                assert!(seen.insert(*name), "{name} is taken twice");
            }
        }
    }

    /// A misspelt option is an error that names the option that was meant.
    #[test]
    fn an_unknown_option_names_the_nearest_one() {
        for (name, nearest) in [
            ("buckt", "bucket"),
            ("endpoint_url", "endpoint_override"),
            ("secret_acess_key", "secret_key"),
            ("Region", "region"),
            ("timeout_request", "request_timeout"),
            ("use_virtual_adressing", "use_virtual_addressing"),
        ] {
            let error = name.parse::<ConfigKey>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(&format!("`{name}`")), "{error}");
            assert!(error.message().ends_with(&format!("did you mean `{nearest}`?")), "{error}");
        }
    }
}
