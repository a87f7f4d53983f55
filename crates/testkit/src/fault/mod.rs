//! A proxy that misbehaves.

mod plan;
mod serve;
mod wire;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use crate::listener::Loopback;
pub use plan::{Fault, FaultRates, FaultRule};

/// An HTTP proxy on 127.0.0.1 in front of an S3 server, which passes requests on as they came (the signature covers
/// the host's name, which is kept) and answers with the faults it was given.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use kvtier_testkit::{Fault, FaultProxy, FaultRule, S3Options, S3Server};
///
/// let server = S3Server::start_on_thread(&S3Options::default())?;
/// let proxy = FaultProxy::start_on_thread(server.endpoint())?;
/// proxy.add(FaultRule::always("kv/short", Fault::Truncate(100)));
/// proxy.add(FaultRule::sequence("kv/busy", [Fault::refuse(503, "SlowDown")]));
/// assert_eq!(proxy.injected(), 0);
/// # Ok(())
/// # }
/// ```
///
/// It holds one message in memory at a time and connection. Dropping it closes the port and every connection, stalled
/// ones too.
#[derive(Debug)]
pub struct FaultProxy {
    _listener: Loopback,
    endpoint: String,
    state: Arc<State>,
}

/// What all connections share.
#[derive(Debug)]
struct State {
    /// `host:port` of the store.
    upstream: String,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    /// Each with the number of requests that it covered.
    rules: Vec<(FaultRule, usize)>,
    rates: Option<FaultRates>,
    /// How often each request was asked.
    asked: HashMap<(String, String), usize>,
    injected: usize,
}

impl FaultProxy {
    /// Starts a proxy for the server at `upstream` (`http://host:port`) on a thread of its own, without faults.
    ///
    /// # Errors
    /// When the port cannot be opened or the thread cannot start.
    pub fn start_on_thread(upstream: &str) -> io::Result<Self> {
        let upstream = upstream.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let state = Arc::new(State { upstream, plan: Mutex::default() });
        let shared = Arc::clone(&state);
        let listener = Loopback::start_on_thread(0, move |stream| {
            let state = Arc::clone(&shared);
            async move {
                // A peer that left.
                let _ = serve::serve(stream, &state).await;
            }
        })?;
        Ok(Self { endpoint: listener.endpoint(), _listener: listener, state })
    }

    /// The base URL, such as `http://127.0.0.1:41234`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Adds a rule. The first rule that covers a request decides.
    pub fn add(&self, rule: FaultRule) {
        self.state.plan.lock().rules.push((rule, 0));
    }

    /// Puts a rule in place of those for the same `key`.
    pub fn replace(&self, key: &str, rule: FaultRule) {
        let mut plan = self.state.plan.lock();
        plan.rules.retain(|(other, _)| other.key() != key);
        plan.rules.push((rule, 0));
    }

    /// Lets chance decide about requests that no rule covers.
    pub fn set_rates(&self, rates: FaultRates) {
        self.state.plan.lock().rates = Some(rates);
    }

    /// From now on nothing goes wrong. What is stalled stays so.
    pub fn clear(&self) {
        *self.state.plan.lock() = Plan::default();
    }

    /// Requests that had a fault, since the start or the last [`clear`](Self::clear).
    pub fn injected(&self) -> usize {
        self.state.plan.lock().injected
    }
}

impl State {
    fn decide(&self, method: &str, target: &str) -> Fault {
        let path = target.split('?').next().unwrap_or_default();
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let mut plan = self.plan.lock();
        let rule = plan.rules.iter_mut().find(|(rule, _)| rule.covers(method, &path));
        let fault = if let Some((rule, covered)) = rule {
            *covered += 1;
            rule.fault(*covered - 1)
        } else {
            let asked = plan.asked.entry((method.to_owned(), path.clone())).or_default();
            let before = *asked;
            *asked += 1;
            plan.rates.as_ref().map_or(Fault::None, |rates| rates.fault(method, &path, before))
        };
        plan.injected += usize::from(fault != Fault::None);
        fault
    }
}
