use std::path::PathBuf;
use std::time::Duration;

use kvtier_core::{Error, ErrorKind};
use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::ConfigKey;

/// How to talk to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The options of a store, from JSON, from `key=value` pairs or from code; all three go through
/// [`set`](Self::set), so an option is checked once and means the same everywhere.
///
/// An empty value, and `null` in JSON, mean "not given". `Debug` never shows secrets.
///
/// ```
/// use kvtier_engine_object_store::{ConfigKey, StoreConfig};
///
/// let pairs = StoreConfig::from_pairs(["bucket=kv", "endpoint=127.0.0.1:9000", "request_timeout=500ms"])?;
/// let code = StoreConfig::default()
///     .with(ConfigKey::Bucket, "kv")?
///     .with(ConfigKey::EndpointOverride, "127.0.0.1:9000")?
///     .with(ConfigKey::RequestTimeout, "0.5")?;
/// assert_eq!(format!("{pairs:?}"), format!("{code:?}"));
/// # Ok::<(), kvtier_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The keys that were given a value, to refuse those that mean nothing for a store.
    given: Vec<ConfigKey>,
    pub(crate) bucket: Option<String>,
    pub(crate) endpoint_override: Option<String>,
    pub(crate) access_key: Option<SecretString>,
    pub(crate) secret_key: Option<SecretString>,
    pub(crate) session_token: Option<SecretString>,
    pub(crate) region: Option<String>,
    pub(crate) scheme: Option<Scheme>,
    pub(crate) ca_bundle: Option<PathBuf>,
    pub(crate) use_virtual_addressing: Option<bool>,
    pub(crate) unsigned_payload: bool,
    pub(crate) request_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) concurrency: u32,
    pub(crate) lookup_concurrency: u32,
    pub(crate) lookup_403_is_absent: bool,
    pub(crate) probe_key: String,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            given: Vec::new(),
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
        }
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
        if !self.is_given(key) {
            self.given.push(key);
        }
        match key {
            ConfigKey::Bucket => self.bucket = Some(parse(key, value, bucket)?),
            ConfigKey::EndpointOverride => self.endpoint_override = Some(value.to_owned()),
            ConfigKey::AccessKey => self.access_key = Some(parse(key, value, secret)?),
            ConfigKey::SecretKey => self.secret_key = Some(parse(key, value, secret)?),
            ConfigKey::SessionToken => self.session_token = Some(parse(key, value, secret)?),
            ConfigKey::Region => self.region = Some(parse(key, value, graphic)?),
            ConfigKey::Scheme => self.scheme = Some(parse(key, value, scheme)?),
            ConfigKey::CaBundle => self.ca_bundle = Some(PathBuf::from(value)),
            ConfigKey::UseVirtualAddressing => self.use_virtual_addressing = Some(parse(key, value, flag)?),
            ConfigKey::UnsignedPayload => self.unsigned_payload = parse(key, value, flag)?,
            ConfigKey::RequestTimeout => self.request_timeout = parse(key, value, duration)?,
            ConfigKey::ConnectTimeout => self.connect_timeout = parse(key, value, duration)?,
            ConfigKey::Concurrency => self.concurrency = parse(key, value, count)?,
            ConfigKey::LookupConcurrency => self.lookup_concurrency = parse(key, value, count)?,
            ConfigKey::Lookup403IsAbsent => self.lookup_403_is_absent = parse(key, value, flag)?,
            ConfigKey::ProbeKey => value.clone_into(&mut self.probe_key),
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

    /// Refuses options that mean something for S3 alone.
    pub(crate) fn refuse_s3_options(&self, store: &str) -> Result<(), Error> {
        match self.given.iter().find(|key| key.is_s3_only()) {
            Some(key) => Err(config_error(format!("`{key}` means nothing for {store}"))),
            None => Ok(()),
        }
    }
}

pub(crate) fn config_error(message: impl Into<String>) -> Error {
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
