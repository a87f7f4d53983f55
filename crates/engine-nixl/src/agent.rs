use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kvtier_core::{Error, ErrorKind};
use parking_lot::Mutex;

use crate::capi::{
    AgentHandle, BackendHandle, Block, Memory, Nixl, OptionsHandle, Progress, Region, RequestHandle, Status,
};
use crate::local::Held;

/// Parameters of the OBJ backend.
pub(crate) type Params = Vec<(CString, CString)>;

/// A NIXL agent with its OBJ backend, alive as long as anything that was made from it.
///
/// Dropping the last hold ends it: NIXL drops what waits in its queue and waits, **without bound**, for what runs. Only
/// then is memory let go that requests left behind. So the last hold belongs on a thread that may wait.
pub(crate) struct Agent {
    api: Arc<dyn Nixl>,
    name: CString,
    handle: Option<AgentHandle>,
    backend: Option<BackendHandle>,
    options: Option<OptionsHandle>,
    /// Never used twice: an agent forgets a name when its first registration ends, whoever uses it still.
    next_device: AtomicU64,
    /// Memory of requests that were dropped while they ran.
    left_behind: Mutex<Vec<Held>>,
}

impl Agent {
    /// # Errors
    /// `Config` if NIXL makes no agent or backend of this; what was made until then is ended.
    pub(crate) fn open(api: Arc<dyn Nixl>, name: &str, params: &Params) -> Result<Self, Error> {
        let refused = |what: &str, status: Status| {
            Error::new(
                ErrorKind::Config,
                format!("NIXL cannot make {what}: {status}; look at the store's options"),
            )
        };
        let name =
            CString::new(name).map_err(|_| Error::new(ErrorKind::Config, "an agent's name has no NUL"))?;
        let agent = api.create_agent(&name).map_err(|status| refused("an agent", status))?;
        let mut opened = Self {
            api,
            name,
            handle: None,
            backend: None,
            options: None,
            next_device: AtomicU64::new(1),
            left_behind: Mutex::default(),
        };
        let agent = opened.handle.insert(agent);
        let backend = opened.api.create_backend(agent, params);
        let backend = opened.backend.insert(backend.map_err(|status| refused("the OBJ backend", status))?);
        let options = opened.api.create_options(backend);
        opened.options = Some(options.map_err(|status| refused("call options", status))?);
        Ok(opened)
    }

    /// A name for an object in requests.
    pub(crate) fn next_device(&self) -> u64 {
        self.next_device.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps memory until NIXL's threads have ended.
    pub(crate) fn leave_behind(&self, held: Held) {
        self.left_behind.lock().push(held);
    }

    pub(crate) fn create_request(&self, block: Block) -> Result<RequestHandle, Status> {
        let (agent, options) = self.handles();
        self.api.create_request(agent, options, &self.name, block)
    }

    /// # Safety
    /// As [`Nixl::post`].
    #[expect(unsafe_code, reason = "passes the promise on")]
    pub(crate) unsafe fn post(&self, request: &RequestHandle) -> Result<Progress, Status> {
        // SAFETY: the caller promises the same.
        unsafe { self.api.post(self.handles().0, request) }
    }

    pub(crate) fn status(&self, request: &RequestHandle) -> Result<Progress, Status> {
        self.api.status(self.handles().0, request)
    }

    pub(crate) fn release(&self, request: RequestHandle) {
        report("release a request", self.api.release(self.handles().0, request));
    }

    fn handles(&self) -> (&AgentHandle, &OptionsHandle) {
        let (Some(agent), Some(options)) = (&self.handle, &self.options) else {
            unreachable!("taken by drop alone, and there before `open` returned")
        };
        (agent, options)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(options) = self.options.take() {
            report("end call options", self.api.destroy_options(options));
        }
        if let Some(backend) = self.backend.take() {
            report("end a backend", self.api.destroy_backend(backend));
        }
        let ended = self.handle.take().map(|agent| self.api.destroy_agent(agent));
        let left_behind = std::mem::take(self.left_behind.get_mut());
        match ended {
            Some(Err(status)) => {
                report("end an agent", Err(status));
                // Its threads may run on.
                left_behind.into_iter().for_each(Held::leak);
            }
            Some(Ok(())) | None => left_behind.into_iter().for_each(Held::let_go),
        }
    }
}

/// A failed release leaks what it could not release, which is safe, and says so.
fn report(what: &str, result: Result<(), Status>) {
    if let Err(status) = result {
        tracing::error!(target: "kvtier::nixl", %status, "NIXL could not {what}; leaked");
    }
}

/// Descriptors known to an agent, until this is dropped. Ending it stops no transfer.
pub(crate) struct Registration {
    agent: Arc<Agent>,
    memory: Memory,
    regions: Vec<Region>,
}

impl Registration {
    /// One call for all regions; their number makes no difference to its cost, but how many are registered in all does.
    pub(crate) fn new(agent: &Arc<Agent>, memory: Memory, regions: Vec<Region>) -> Result<Self, Status> {
        let (handle, options) = agent.handles();
        agent.api.register(handle, options, memory, &regions)?;
        Ok(Self { agent: Arc::clone(agent), memory, regions })
    }

    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let (handle, options) = self.agent.handles();
        report("deregister", self.agent.api.deregister(handle, options, self.memory, &self.regions));
    }
}

/// The agent's name, for logs.
impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name: &CStr = &self.name;
        f.debug_struct("Agent").field("name", &name).finish_non_exhaustive()
    }
}
