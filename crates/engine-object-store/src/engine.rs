use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kvtier_core::{
    Capabilities, Direction, Error, ErrorKind, ObjectKey, Presence, Probe, Transfer, TransferEngine,
};
use kvtier_store::{ConfigUser, StoreConfig, StoreKind, StoreUrl, config_error};
use object_store::memory::InMemory;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::block::{self, Shared};
use crate::buffers::Buffers;
use crate::classify::{Refusal, classify};

use crate::directory;
use crate::names::Names;
use crate::s3::s3_client;

/// A [`TransferEngine`] on the object_store crate: S3 and what speaks its language, a local directory, the
/// memory of this process, or any [`ObjectStore`] of yours.
///
/// Its tasks run on the runtime whose handle it is given, never on the caller's thread. When that runtime is gone,
/// transfers and lookups end with [`ErrorKind::Closed`]. Dropping the engine stops nothing; [`close`](Self::close)
/// does.
pub struct ObjectStoreEngine {
    inner: Arc<Inner>,
    handle: Handle,
    tracker: TaskTracker,
}

struct Inner {
    store: Arc<dyn ObjectStore>,
    capabilities: Capabilities,
    names: Names,
    check: Check,
    buffers: Arc<Buffers>,
    request_timeout: Duration,
    denied_lookup_is_absent: bool,
    lookups: Semaphore,
    /// Cancelled when `close` runs out of patience.
    stop: CancellationToken,
}

/// What [`ObjectStoreEngine::probe`] does.
enum Check {
    /// Ask for an object that is not there.
    Get(ObjectKey),
    /// Write to the directory.
    Directory(PathBuf),
}

impl ObjectStoreEngine {
    /// Opens the store that a URL names. The URL's [prefix](StoreUrl::prefix) is for the key mapper; here it only
    /// places the object that [`probe`](Self::probe) asks for.
    ///
    /// # Errors
    /// `Config` for options that are missing, contradict each other or mean nothing for this store, and for a
    /// current-thread runtime; the text says which.
    pub fn open(url: &StoreUrl, config: &StoreConfig, handle: Handle) -> Result<Self, Error> {
        match url.kind() {
            StoreKind::S3 { bucket } => {
                let config = config.for_url(bucket, url.prefix())?;
                Self::s3(&config, handle)
            }
            StoreKind::Directory(dir) => Self::local(dir, config, handle),
            StoreKind::Memory => Self::memory(config, handle),
        }
    }

    /// Opens a bucket of an S3-compatible server. No I/O happens here; see [`probe`](Self::probe).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn s3(config: &StoreConfig, handle: Handle) -> Result<Self, Error> {
        config.refuse_others(ConfigUser::ObjectStoreS3, "this engine")?;
        let store = Arc::new(s3_client(config)?);
        Self::new(store, "object-store/s3", true, Names::Keys, config, handle)
    }

    /// Opens a local directory, and makes it if it is missing. Blocks for that short while.
    ///
    /// An object is a file with its name. It appears by a rename, so nobody reads half an object; after a power
    /// failure the last ones may be missing or empty (nothing waits for the disk), which loads report as
    /// [`ErrorKind::Corrupt`] or [`ErrorKind::NotFound`].
    ///
    /// # Errors
    /// As [`open`](Self::open), and if the directory cannot be made or written.
    pub fn local(dir: &Path, config: &StoreConfig, handle: Handle) -> Result<Self, Error> {
        config.refuse_others(ConfigUser::ObjectStoreOther, "a directory")?;
        let (store, root) = directory::open(dir)?;
        let names = Names::Files { store: store.clone(), root: root.clone() };
        let mut engine = Self::new(Arc::new(store), "object-store/file", false, names, config, handle)?;
        if let Some(inner) = Arc::get_mut(&mut engine.inner) {
            inner.check = Check::Directory(root);
        }
        Ok(engine)
    }

    /// A store in the memory of this process, gone with the engine.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn memory(config: &StoreConfig, handle: Handle) -> Result<Self, Error> {
        config.refuse_others(ConfigUser::ObjectStoreOther, "a store in memory")?;
        Self::new(Arc::new(InMemory::new()), "object-store/memory", true, Names::Keys, config, handle)
    }

    /// Uses a store of yours, with `name` in logs and metrics. It should make one attempt per request
    /// (`RetryConfig::max_retries` 0): the tier retries. For a directory, use [`local`](Self::local), which knows which
    /// names a directory cannot hold.
    ///
    /// # Errors
    /// `Config` for options that mean something for [`s3`](Self::s3) alone, and for a current-thread runtime.
    pub fn from_store(
        store: Arc<dyn ObjectStore>,
        name: &str,
        config: &StoreConfig,
        handle: Handle,
    ) -> Result<Self, Error> {
        config.refuse_others(ConfigUser::ObjectStoreOther, name)?;
        Self::new(store, name, false, Names::Keys, config, handle)
    }

    fn new(
        store: Arc<dyn ObjectStore>,
        name: &str,
        keeps_metadata: bool,
        names: Names,
        config: &StoreConfig,
        handle: Handle,
    ) -> Result<Self, Error> {
        if handle.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err(config_error(
                "the engine needs a multi-thread runtime: one that its caller cannot block",
            ));
        }
        let probe_key = config.probe_object()?;
        let mut capabilities = Capabilities::new(name);
        capabilities.transfers_in_flight_max = config.concurrency;
        capabilities.probes_in_flight_max = config.lookup_concurrency;
        capabilities.keeps_metadata = keeps_metadata;
        let inner = Inner {
            store,
            capabilities,
            names,
            check: Check::Get(probe_key),
            buffers: Arc::default(),
            request_timeout: config.request_timeout,
            denied_lookup_is_absent: config.lookup_403_is_absent,
            lookups: Semaphore::new(
                usize::try_from(config.lookup_concurrency).unwrap_or(Semaphore::MAX_PERMITS),
            ),
            stop: CancellationToken::new(),
        };
        Ok(Self { inner: Arc::new(inner), handle, tracker: TaskTracker::new() })
    }

    /// What `close` waits for, or nothing after `close`. Counted before the look: no work slips in between.
    fn admit(&self) -> Option<TaskTrackerToken> {
        let token = self.tracker.token();
        (!self.tracker.is_closed()).then_some(token)
    }
}

#[async_trait]
impl TransferEngine for ObjectStoreEngine {
    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    async fn probe(&self) -> Result<(), Error> {
        let Some(token) = self.admit() else { return Err(closed()) };
        let inner = Arc::clone(&self.inner);
        // On our runtime: connections live where they are made, and the caller's runtime may end before us.
        let task = self.handle.spawn(async move {
            let _token = token;
            inner.probe().await
        });
        AbortOnDropHandle::new(task).await.unwrap_or_else(|_| Err(closed()))
    }

    fn lookup(&self, probes: Vec<Probe>) {
        for probe in probes {
            let Some(token) = self.admit() else {
                probe.answer(Err(closed()));
                continue;
            };
            let inner = Arc::clone(&self.inner);
            self.handle.spawn(async move {
                let _token = token;
                let presence = inner.presence(probe.key()).await;
                probe.answer(presence);
            });
        }
    }

    fn submit(&self, batch: Vec<Transfer>) {
        for transfer in batch {
            let Some(token) = self.admit() else {
                transfer.complete(Err(closed()));
                continue;
            };
            let inner = Arc::clone(&self.inner);
            self.handle.spawn(async move {
                let _token = token;
                inner.transfer(transfer).await;
            });
        }
    }

    async fn close(&self, deadline: Instant) {
        self.tracker.close();
        let (tracker, inner) = (self.tracker.clone(), Arc::clone(&self.inner));
        let closing = self.handle.spawn(async move {
            if timeout_at(deadline.into(), tracker.wait()).await.is_err() {
                tracing::warn!(target: "kvtier::object_store", left = tracker.len(), "closed with work in flight");
                inner.stop.cancel();
                tracker.wait().await;
            }
        });
        // An error means that the runtime is gone, and with it every task; each gave back what it had.
        let _ = closing.await;
    }
}

impl Inner {
    async fn transfer(&self, transfer: Transfer) {
        let (direction, deadline) = (transfer.direction(), transfer.deadline());
        let path = match self.names.path(transfer.key()) {
            Ok(path) => path,
            Err(error) => return transfer.complete(Err(error)),
        };
        let shared: Shared = Arc::new(Mutex::new(Some(transfer)));
        let store = self.store.as_ref();
        let result = match direction {
            Direction::Store => {
                self.within(deadline, &path, block::store(store, &path, &shared, &self.buffers)).await
            }
            Direction::Load => self.within(deadline, &path, block::load(store, &path, &shared)).await,
        };
        let transfer = shared.lock().take();
        if let Some(transfer) = transfer {
            if let Err(error) = &result {
                tracing::debug!(target: "kvtier::object_store", %error, "{direction} failed");
            }
            transfer.complete(result);
        }
    }

    async fn presence(&self, key: &ObjectKey) -> Result<Presence, Error> {
        let path = self.names.path(key)?;
        // Never closed; while it waits, `close` can still end it.
        let permit = self.stop.run_until_cancelled(self.lookups.acquire()).await;
        let Some(Ok(_permit)) = permit else { return Err(given_up(&path)) };
        let head = async {
            let head = self.store.head(&path).await;
            head.map_err(|error| classify(&format!("HEAD {path}"), &error))
        };
        match self.within(None, &path, head).await {
            Ok(meta) => Ok(Presence::Present { size_bytes: Some(meta.size) }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Presence::Absent),
            Err(error) if error.kind() == ErrorKind::Denied && self.denied_lookup_is_absent => {
                tracing::debug!(target: "kvtier::object_store", %error, "taken for absent");
                Ok(Presence::Absent)
            }
            Err(error) => Err(error),
        }
    }

    async fn probe(&self) -> Result<(), Error> {
        let what = format!("probe of {}", self.capabilities.name);
        match &self.check {
            Check::Get(key) => {
                let path = self.names.path(key)?;
                let asked = async { Ok(self.store.get_opts(&path, GetOptions::default()).await) };
                let asked = self.within(None, &format!("{what}: look at endpoint_override"), asked).await?;
                asked.map_or_else(|error| self.judge_probe(&what, &error), |_| Ok(()))
            }
            Check::Directory(root) => {
                let root = root.clone();
                let checked = async { tokio::task::spawn_blocking(move || directory::check(&root)).await };
                self.within(None, &what, async { checked.await.unwrap_or_else(|_| Err(closed())) }).await
            }
        }
    }

    /// A store that says "no such key" has understood the endpoint, the credentials and the bucket.
    fn judge_probe(&self, what: &str, error: &object_store::Error) -> Result<(), Error> {
        match Refusal::of(error) {
            Some(refusal) if refusal.code == "NoSuchKey" => Ok(()),
            // What S3 says about a missing object to those who may not list the bucket.
            Some(refusal) if refusal.code == "AccessDenied" && self.denied_lookup_is_absent => Ok(()),
            Some(refusal) if refusal.status == 404 && refusal.code.is_empty() => Err(config_error(format!(
                "{what}: HTTP 404 without S3's error code, so this is no S3 server; look at endpoint_override"
            ))),
            None if matches!(error, object_store::Error::NotFound { .. }) => Ok(()),
            _ => Err(classify(what, error)),
        }
    }

    /// Does `work` until the deadline, the engine's own timeout, or the end of `close`. Dropping the work is safe:
    /// it owns copies, and the slot is behind the transfer.
    async fn within<T>(
        &self,
        deadline: Option<Instant>,
        what: &(dyn fmt::Display + Sync),
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let now = tokio::time::Instant::now();
        let limit = deadline
            .map_or(now + self.request_timeout, |at| at.min((now + self.request_timeout).into()).into());
        if limit <= now {
            return Err(late(what));
        }
        match self.stop.run_until_cancelled(timeout_at(limit, work)).await {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(late(what)),
            None => Err(given_up(what)),
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the engine is closed or its runtime is gone")
}

fn late(what: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::Timeout, format!("{what}: no answer in time"))
}

fn given_up(what: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::Timeout, format!("{what}: given up because the engine was closed"))
}

impl fmt::Debug for ObjectStoreEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStoreEngine")
            .field("capabilities", &self.inner.capabilities)
            .finish_non_exhaustive()
    }
}
