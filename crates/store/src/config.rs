use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use kvtier_core::{Error, ErrorKind, ObjectKey};
use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::{ConfigKey, ConfigUser};

/// How to talk to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain text.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// When the AWS SDK under NIXL computes or checks checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Whenever the operation supports it.
    Supported,
    /// Only where the operation requires it.
    Required,
}

impl Checksum {
    /// `supported` or `required`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Required => "required",
        }
    }
}

/// The options of a store, from JSON, from `key=value` pairs or from code; all three go through
/// [`set`](Self::set), so an option is checked once and means the same everywhere.
///
/// An empty value, and `null` in JSON, mean "not given". `Debug` never shows secrets.
///
/// ```
/// use kvtier_store::{ConfigKey, StoreConfig};
///
/// let pairs = StoreConfig::from_pairs(["bucket=kv", "endpoint=127.0.0.1:9000", "request_timeout=500ms"])?;
/// let code = StoreConfig::default()
///     .with(ConfigKey::Bucket, "kv")?
///     .with(ConfigKey::EndpointOverride, "127.0.0.1:9000")?
///     .with(ConfigKey::RequestTimeout, "0.5")?;
/// assert_eq!(format!("{pairs:?}"), format!("{code:?}"));
/// # Ok::<(), kvtier_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StoreConfig {
    /// The keys that were given a value, to refuse those that mean nothing for a store.
    given: Vec<ConfigKey>,
    settings: Settings,
}

/// The values of a [`StoreConfig`], each documented at its [`ConfigKey`]. Read only: a value is set, and checked, by
/// its key.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each field is documented at the key of its name")]
pub struct Settings {
    pub bucket: Option<String>,
    pub endpoint_override: Option<String>,
    pub access_key: Option<SecretString>,
    pub secret_key: Option<SecretString>,
    pub session_token: Option<SecretString>,
    pub region: Option<String>,
    pub scheme: Option<Scheme>,
    pub ca_bundle: Option<PathBuf>,
    pub use_virtual_addressing: Option<bool>,
    pub unsigned_payload: bool,
    pub request_timeout: Duration,
    pub connect_timeout: Duration,
    pub concurrency: u32,
    pub lookup_concurrency: u32,
    pub lookup_403_is_absent: bool,
    pub probe_key: String,
    pub num_threads: u32,
    pub lookup_threads: u32,
    pub req_checksum: Option<Checksum>,
    pub resp_checksum: Option<Checksum>,
    pub zero_copy: bool,
    pub staging_bytes: usize,
    pub nixl_library: Option<PathBuf>,
    pub backend_params: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bucket: None,
            endpoint_override: None,
            access_key: None,
            secret_key: None,
            session_token: None,
            region: None,
            scheme: None,
            ca_bundle: None,
            use_virtual_addressing: None,
            unsigned_payload: false,
            request_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            concurrency: 64,
            lookup_concurrency: 64,
            lookup_403_is_absent: false,
            probe_key: "kvtier-probe".to_owned(),
            num_threads: 16,
            lookup_threads: 8,
            req_checksum: None,
            resp_checksum: None,
            zero_copy: false,
            staging_bytes: 256 << 20,
            nixl_library: None,
            backend_params: BTreeMap::new(),
        }
    }
}

impl Deref for StoreConfig {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

impl StoreConfig {
    /// Reads a JSON object such as vLLM's `store_config`. Values are text, numbers, booleans or `null`.
    ///
    /// # Errors
    /// `Config` for an unknown key, a key given twice (by an alias), or a value that the key does not take.
    pub fn from_json(object: &Map<String, Value>) -> Result<Self, Error> {
        let mut config = Self::default();
        for (name, value) in object {
            let key = name.parse()?;
            let text = match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                Value::Object(_) if key == ConfigKey::BackendParams => value.to_string(),
                Value::Array(_) | Value::Object(_) => return Err(bad_value(key, "a list or an object")),
            };
            config.set_once(key, &text)?;
        }
        Ok(config)
    }

    /// Reads `key=value` pairs, such as command-line arguments.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json), and for a pair without `=`.
    pub fn from_pairs<I>(pairs: I) -> Result<Self, Error>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut config = Self::default();
        for pair in pairs {
            // The pair is not shown: somebody may have forgotten the key of a secret.
            let (name, value) = pair
                .as_ref()
                .split_once('=')
                .ok_or_else(|| config_error("an option is written key=value"))?;
            config.set_once(name.trim().parse()?, value)?;
        }
        Ok(config)
    }

    /// [`set`](Self::set) for chains of calls.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn with(mut self, key: ConfigKey, value: &str) -> Result<Self, Error> {
        self.set(key, value)?;
        Ok(self)
    }

    /// Gives `key` a value, in place of an earlier one. An empty value changes nothing.
    ///
    /// # Errors
    /// `Config` if the key does not take the value; the message never shows a secret's value.
    pub fn set(&mut self, key: ConfigKey, value: &str) -> Result<(), Error> {
        let value = value.trim();
        if value.is_empty() {
            return Ok(());
        }
        let settings = &mut self.settings;
        match key {
            ConfigKey::Bucket => settings.bucket = Some(parse(key, value, bucket)?),
            ConfigKey::EndpointOverride => settings.endpoint_override = Some(value.to_owned()),
            ConfigKey::AccessKey => settings.access_key = Some(parse(key, value, secret)?),
            ConfigKey::SecretKey => settings.secret_key = Some(parse(key, value, secret)?),
            ConfigKey::SessionToken => settings.session_token = Some(parse(key, value, secret)?),
            ConfigKey::Region => settings.region = Some(parse(key, value, graphic)?),
            ConfigKey::Scheme => settings.scheme = Some(parse(key, value, scheme)?),
            ConfigKey::CaBundle => settings.ca_bundle = Some(PathBuf::from(value)),
            ConfigKey::UseVirtualAddressing => {
                settings.use_virtual_addressing = Some(parse(key, value, flag)?);
            }
            ConfigKey::UnsignedPayload => settings.unsigned_payload = parse(key, value, flag)?,
            ConfigKey::RequestTimeout => settings.request_timeout = parse(key, value, duration)?,
            ConfigKey::ConnectTimeout => settings.connect_timeout = parse(key, value, duration)?,
            ConfigKey::Concurrency => settings.concurrency = parse(key, value, count)?,
            ConfigKey::LookupConcurrency => settings.lookup_concurrency = parse(key, value, count)?,
            ConfigKey::Lookup403IsAbsent => settings.lookup_403_is_absent = parse(key, value, flag)?,
            ConfigKey::ProbeKey => value.clone_into(&mut settings.probe_key),
            ConfigKey::NumThreads => settings.num_threads = parse(key, value, threads)?,
            ConfigKey::LookupThreads => settings.lookup_threads = parse(key, value, threads)?,
            ConfigKey::ReqChecksum => settings.req_checksum = Some(parse(key, value, checksum)?),
            ConfigKey::RespChecksum => settings.resp_checksum = Some(parse(key, value, checksum)?),
            ConfigKey::ZeroCopy => settings.zero_copy = parse(key, value, flag)?,
            ConfigKey::StagingBytes => settings.staging_bytes = parse(key, value, bytes)?,
            ConfigKey::NixlLibrary => settings.nixl_library = Some(PathBuf::from(value)),
            ConfigKey::BackendParams => settings.backend_params = parse(key, value, params)?,
        }
        if !self.is_given(key) {
            self.given.push(key);
        }
        Ok(())
    }

    /// Whether `key` was given a value.
    pub fn is_given(&self, key: ConfigKey) -> bool {
        self.given.contains(&key)
    }

    fn set_once(&mut self, key: ConfigKey, value: &str) -> Result<(), Error> {
        if self.is_given(key) {
            return Err(config_error(format!("`{key}` is given twice")));
        }
        self.set(key, value)
    }

    /// Refuses options that mean nothing for `user`; `name` is what the message calls it.
    ///
    /// # Errors
    /// `Config`, naming the option.
    pub fn refuse_others(&self, user: ConfigUser, name: &str) -> Result<(), Error> {
        match self.given.iter().find(|key| !key.is_for(user)) {
            Some(key) => Err(config_error(format!("`{key}` means nothing for {name}"))),
            None => Ok(()),
        }
    }

    /// This configuration for the bucket and under the prefix of an S3 URL.
    ///
    /// # Errors
    /// `Config` if another bucket is configured already.
    pub fn for_url(&self, bucket: &str, prefix: &str) -> Result<Self, Error> {
        if self.bucket.as_ref().is_some_and(|other| other != bucket) {
            return Err(config_error("`bucket` is not the bucket of the store's URL"));
        }
        let mut config = self.clone().with(ConfigKey::Bucket, bucket)?;
        if !prefix.is_empty() && !config.is_given(ConfigKey::ProbeKey) {
            let probe_key = format!("{prefix}/{}", config.probe_key);
            config.set(ConfigKey::ProbeKey, &probe_key)?;
        }
        Ok(config)
    }

    /// The object that a probe of the store asks for and that should not exist.
    ///
    /// # Errors
    /// `Config` if `probe_key` cannot be the name of an object.
    pub fn probe_object(&self) -> Result<ObjectKey, Error> {
        ObjectKey::new(self.probe_key.as_str())
            .map_err(|error| config_error(format!("`probe_key`: {}", error.message())))
    }

    /// The keys, if they are given; without them, the default chain of the client applies.
    ///
    /// # Errors
    /// `Config` if they are given in part.
    pub fn credentials(&self) -> Result<Option<Credentials<'_>>, Error> {
        match (&self.access_key, &self.secret_key) {
            (Some(access_key), Some(secret_key)) => {
                let session_token = self.session_token.as_ref();
                Ok(Some(Credentials { access_key, secret_key, session_token }))
            }
            (Some(_), None) => Err(config_error("`access_key` is given without `secret_key`")),
            (None, Some(_)) => Err(config_error("`secret_key` is given without `access_key`")),
            (None, None) if self.session_token.is_some() => {
                Err(config_error("`session_token` is given without `access_key` and `secret_key`"))
            }
            (None, None) => Ok(None),
        }
    }

    /// The region: given, or from `AWS_REGION`, `AWS_DEFAULT_REGION`, or `us-east-1`.
    pub fn region_in(&self, environment: Environment<'_>) -> String {
        let region = self.region.clone().or_else(|| environment("AWS_REGION"));
        region.or_else(|| environment("AWS_DEFAULT_REGION")).unwrap_or_else(|| "us-east-1".to_owned())
    }
}

/// Reads one environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Keys that were given, complete.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// The access key id.
    pub access_key: &'a SecretString,
    /// The secret access key.
    pub secret_key: &'a SecretString,
    /// The token of temporary credentials.
    pub session_token: Option<&'a SecretString>,
}

/// An error of kind `Config`.
pub fn config_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

/// An error that shows what was given, unless it is a secret.
pub(crate) fn bad_value(key: ConfigKey, value: &str) -> Error {
    let given = if key.is_secret() { String::new() } else { format!(", not `{value}`") };
    config_error(format!("`{key}` takes {}{given}", key.expects()))
}

fn parse<T>(key: ConfigKey, value: &str, read: fn(&str) -> Option<T>) -> Result<T, Error> {
    read(value).ok_or_else(|| bad_value(key, value))
}

fn scheme(value: &str) -> Option<Scheme> {
    [Scheme::Http, Scheme::Https].into_iter().find(|scheme| value.eq_ignore_ascii_case(scheme.as_str()))
}

fn flag(value: &str) -> Option<bool> {
    [true, false].into_iter().find(|flag| value.eq_ignore_ascii_case(if *flag { "true" } else { "false" }))
}

/// Text that can go into an HTTP header; object_store panics on any other.
fn graphic(value: &str) -> Option<String> {
    value.bytes().all(|byte| byte.is_ascii_graphic()).then(|| value.to_owned())
}

fn secret(value: &str) -> Option<SecretString> {
    graphic(value).map(SecretString::from)
}

fn count(value: &str) -> Option<u32> {
    value.parse().ok().filter(|count| (1..=4096).contains(count))
}

fn threads(value: &str) -> Option<u32> {
    value.parse().ok().filter(|count| (1..=25).contains(count))
}

fn checksum(value: &str) -> Option<Checksum> {
    [Checksum::Supported, Checksum::Required]
        .into_iter()
        .find(|checksum| value.eq_ignore_ascii_case(checksum.as_str()))
}

fn bytes(value: &str) -> Option<usize> {
    value.parse().ok().filter(|bytes| (1 << 10..=1 << 40).contains(bytes))
}

/// An object of text values, as JSON.
fn params(value: &str) -> Option<BTreeMap<String, String>> {
    serde_json::from_str(value).ok()
}

fn duration(value: &str) -> Option<Duration> {
    let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let duration = seconds.or_else(|| humantime::parse_duration(value).ok())?;
    (!duration.is_zero() && duration <= Duration::from_hours(24)).then_some(duration)
}

/// A bucket's name, as long as it stays one segment of a URL's path. What else a server demands of it, the server says.
fn bucket(value: &str) -> Option<String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "/?#%@\\".contains(c);
    (!value.contains(odd) && value != "." && value != "..").then(|| value.to_owned())
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
