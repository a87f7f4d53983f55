use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use kvtier_core::{Capabilities, Error, ErrorKind, ObjectKey, Probe, Transfer, TransferEngine};
use kvtier_store::{ConfigUser, StoreConfig, StoreKind, StoreUrl, config_error};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::sync::oneshot;

use crate::agent::{Agent, Params};
use crate::capi::{Linked, Nixl, library};
use crate::lane::{AGENTS_ENDING_MAX, Health, Lane, LaneOptions, LaneThread, Work};
use crate::params::params;

/// A [`TransferEngine`] on NIXL's OBJ plugin.
///
/// Two NIXL agents, one for transfers and one for lookups, so that a lookup never waits behind a transfer; one thread for
/// each, which alone enters NIXL. Dropping the engine cancels what waits and lets what runs end by itself.
pub struct NixlEngine {
    transfers: LaneThread,
    lookups: LaneThread,
    health: [Arc<Health>; 2],
    capabilities: Capabilities,
    probe_object: ObjectKey,
    library: PathBuf,
}

/// What an engine had to leave behind because requests did not end. All zero is healthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NixlHealth {
    /// Requests that were given up and still run. Each holds a thread of NIXL and a staging buffer.
    pub requests_stuck: usize,
    /// Agents that wait for the end of their stuck requests.
    pub agents_ending: usize,
    /// Agents that were replaced because all their threads were stuck, since the engine was opened.
    pub agents_replaced: u64,
}

/// Agents of this process have different names.
static AGENTS: AtomicU64 = AtomicU64::new(1);

impl NixlEngine {
    /// Opens the bucket of an S3 URL. The URL's [prefix](StoreUrl::prefix) is for the key mapper; here it only places the
    /// object that [`probe`](Self::probe) asks for.
    ///
    /// # Errors
    /// As [`s3`](Self::s3), and `Config` for a URL that is not S3.
    pub fn open(url: &StoreUrl, config: &StoreConfig) -> Result<Self, Error> {
        match url.kind() {
            StoreKind::S3 { bucket } => Self::s3(&config.for_url(bucket, url.prefix())?),
            StoreKind::Directory(_) | StoreKind::Memory => {
                Err(config_error("the nixl engine speaks to S3 alone: s3://bucket or s3://bucket/prefix"))
            }
        }
    }

    /// Opens a bucket: loads NIXL (once per process) and makes both agents. Takes some 0.2 s, and reads nothing from
    /// the bucket; see [`probe`](Self::probe).
    ///
    /// Call it at start-up, before other threads of C code read the environment: unless `AWS_RETRY_MODE=standard` and
    /// `AWS_MAX_ATTEMPTS=1` are set already, they are set while the agents are made, and restored (also later, if a stuck agent has to be replaced). With retries of
    /// the SDK's own, right bytes cannot be promised.
    ///
    /// # Errors
    /// `Config` if the library cannot be loaded or lacks a function (with the loader's words), for options that are
    /// missing, contradict each other or mean nothing for this engine, and if NIXL refuses them.
    pub fn s3(config: &StoreConfig) -> Result<Self, Error> {
        config.refuse_others(ConfigUser::Nixl, "the nixl engine")?;
        let environment = |name: &str| std::env::var(name).ok();
        let backends = [
            params(config, config.num_threads, &environment)?,
            params(config, config.lookup_threads, &environment)?,
        ];
        let loaded = library::load(config.nixl_library.as_deref())?;
        let path = loaded.path().to_owned();
        let api: Arc<dyn Nixl> = Arc::new(Linked::new(loaded));
        Self::start(&api, config, backends, path)
    }

    fn start(
        api: &Arc<dyn Nixl>,
        config: &StoreConfig,
        [transfers, lookups]: [Params; 2],
        library: PathBuf,
    ) -> Result<Self, Error> {
        let options = LaneOptions {
            name: "io",
            threads: config.num_threads as usize,
            window: config.concurrency as usize,
            staging_bytes: config.staging_bytes,
            zero_copy: config.zero_copy,
            request_timeout: config.request_timeout,
            denied_is_absent: config.lookup_403_is_absent,
        };
        let lookup_options = LaneOptions {
            name: "lookup",
            threads: config.lookup_threads as usize,
            window: config.lookup_concurrency as usize,
            zero_copy: false,
            ..options.clone()
        };
        let health = [Arc::<Health>::default(), Arc::default()];
        let [of_transfers, of_lookups] = &health;
        let transfers = start_lane(api, options, transfers, of_transfers)?;
        let lookups = start_lane(api, lookup_options, lookups, of_lookups)?;
        let probe_object = config.probe_object()?;
        let capabilities = capabilities(config);
        Ok(Self { transfers, lookups, health, capabilities, probe_object, library })
    }

    /// The library that this process uses.
    pub fn library(&self) -> &std::path::Path {
        &self.library
    }

    /// What the engine had to leave behind until now.
    pub fn health(&self) -> NixlHealth {
        self.health.iter().fold(NixlHealth::default(), |sum, health| NixlHealth {
            requests_stuck: sum.requests_stuck + health.stuck.load(Ordering::Relaxed),
            agents_ending: sum.agents_ending + health.ending.load(Ordering::Relaxed),
            agents_replaced: sum.agents_replaced + health.replaced.load(Ordering::Relaxed),
        })
    }

    /// Most agents of each kind that may wait for their end; beyond, work fails at once as `Unavailable` until one
    /// has ended.
    pub const AGENTS_ENDING_MAX: usize = AGENTS_ENDING_MAX;
}

fn start_lane(
    api: &Arc<dyn Nixl>,
    options: LaneOptions,
    params: Params,
    health: &Arc<Health>,
) -> Result<LaneThread, Error> {
    let (api, name) = (Arc::clone(api), options.name);
    let open = move || {
        let number = AGENTS.fetch_add(1, Ordering::Relaxed);
        Agent::open(Arc::clone(&api), &format!("kvtier-{name}-{number}"), &params)
    };
    LaneThread::start(Lane::new(options, Box::new(open), Arc::clone(health), ChaCha8Rng::from_os_rng())?)
}

fn capabilities(config: &StoreConfig) -> Capabilities {
    let mut capabilities = Capabilities::new(if config.zero_copy { "nixl/s3/zero-copy" } else { "nixl/s3" });
    // As many again wait in the lane, so that its threads never wait for the tier.
    capabilities.transfers_in_flight_max = config.concurrency * 2;
    capabilities.probes_in_flight_max = config.lookup_concurrency * 2;
    capabilities.block_bytes_max = crate::lane::BLOCK_BYTES_MAX;
    capabilities.detects_long = !config.zero_copy;
    capabilities.reports_size = false;
    capabilities.keeps_metadata = false;
    capabilities.honours_deadline = !config.zero_copy;
    capabilities
}

#[async_trait]
impl TransferEngine for NixlEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn probe(&self) -> Result<(), Error> {
        for lane in [&self.transfers, &self.lookups] {
            let (reply, answer) = oneshot::channel();
            lane.send(vec![Work::Check(self.probe_object.clone(), reply)]);
            let closed = |_| Error::new(ErrorKind::Closed, "the engine is closed");
            answer.await.map_err(closed)??;
        }
        Ok(())
    }

    fn lookup(&self, probes: Vec<Probe>) {
        self.lookups.send(probes.into_iter().map(Work::Lookup).collect());
    }

    fn submit(&self, batch: Vec<Transfer>) {
        self.transfers.send(batch.into_iter().map(Work::Transfer).collect());
    }

    async fn close(&self, deadline: Instant) {
        let lanes = [&self.transfers, &self.lookups];
        for lane in lanes {
            lane.close(deadline);
        }
        for lane in lanes {
            lane.closed().await;
        }
    }
}

impl fmt::Debug for NixlEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NixlEngine")
            .field("capabilities", &self.capabilities)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}
