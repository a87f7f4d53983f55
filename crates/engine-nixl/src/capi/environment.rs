//! The environment that NIXL and the AWS SDK under it read.

use std::env;
use std::ffi::OsString;

use parking_lot::{Mutex, MutexGuard};

/// One attempt per request: a second one of the SDK writes behind what the first one left in the buffer, which can make a
/// full block of shifted bytes. The variables are read when a backend is made; one without the other is ignored.
const NO_RETRIES: [(&str, &str); 2] = [("AWS_RETRY_MODE", "standard"), ("AWS_MAX_ATTEMPTS", "1")];
/// Spares seconds of looking for a metadata service that nobody needs who gives keys and a region.
const NO_METADATA: (&str, &str) = ("AWS_EC2_METADATA_DISABLED", "true");
/// Each failed transfer would be a line on standard error; the engine reports them itself.
const QUIET: (&str, &str) = ("NIXL_LOG_LEVEL", "FATAL");
/// Change what an agent does, or start threads in it.
const UNEXPECTED: [&str; 4] =
    ["NIXL_TELEMETRY_ENABLE", "NIXL_ETCD_ENDPOINTS", "NIXL_TCPSTORE_ENDPOINT", "NIXL_TRACE_BACKENDS"];

/// One thread at a time changes the environment here.
static CHANGING: Mutex<()> = Mutex::new(());

/// Sets what NIXL reads when it is loaded, unless the user did.
pub(super) fn quiet() {
    let _lock = CHANGING.lock();
    for name in UNEXPECTED.into_iter().filter(|name| env::var_os(name).is_some()) {
        tracing::warn!(target: "kvtier::nixl", name, "this variable changes NIXL's behaviour in ways nobody tested here");
    }
    if env::var_os(QUIET.0).is_none() {
        set(QUIET.0, Some(QUIET.1.into()));
    }
}

/// While it lives, a backend that is made retries nothing. Afterwards everything is as before, so that no other
/// user of an AWS SDK in the process is changed. Nothing is touched where it is right already.
pub(super) fn without_retries(has_keys: bool) -> Changed {
    let lock = CHANGING.lock();
    let wanted = NO_RETRIES.into_iter().chain(has_keys.then_some(NO_METADATA));
    let mut before = Vec::new();
    for (name, value) in wanted {
        let old = env::var_os(name);
        if old.as_deref() != Some(value.as_ref()) {
            set(name, Some(value.into()));
            before.push((name, old));
        }
    }
    Changed { before, _lock: lock }
}

/// Restores the environment on drop.
pub(super) struct Changed {
    before: Vec<(&'static str, Option<OsString>)>,
    _lock: MutexGuard<'static, ()>,
}

impl Drop for Changed {
    fn drop(&mut self) {
        for (name, value) in self.before.drain(..) {
            set(name, value);
        }
    }
}

fn set(name: &str, value: Option<OsString>) {
    match value {
        // SAFETY: Rust's own accesses to the environment exclude each other. C code that reads it at this very moment
        // does not; so engines are opened at start-up, which `NixlEngine::open` asks for, or with the variables set
        // before the process starts, when nothing is changed here.
        Some(value) => unsafe { env::set_var(name, value) },
        // SAFETY: as above.
        None => unsafe { env::remove_var(name) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Within the guard the SDK makes one attempt; afterwards the user's values are back, also absent ones.
    #[test]
    fn the_environment_comes_back() {
        let now = || ["AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS", NO_METADATA.0].map(env::var_os);
        let before = now();
        let changed = without_retries(true);
        assert_eq!(now(), ["standard", "1", "true"].map(|value| Some(value.into())));
        drop(changed);
        assert_eq!(now(), before);
    }
}
