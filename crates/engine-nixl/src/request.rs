use std::sync::Arc;

use crate::agent::{Agent, Registration};
use crate::capi::{Block, Operation, Progress, RequestHandle, Status};
use crate::local::{Local, Refused};

/// One running or finished request, for one block, with the memory it works on.
///
/// # Contract
/// The memory comes back from [`poll`](Self::poll) when NIXL says that the request is over, which for a request of
/// one descriptor is after its last access to the memory. Dropped before, the request leaves its memory with the agent,
/// which lets go of it when its threads have ended.
pub(crate) struct Request {
    agent: Arc<Agent>,
    handle: Option<RequestHandle>,
    local: Option<Local>,
    /// Over already when it was posted.
    is_over: bool,
    _object: Arc<Registration>,
}

impl Request {
    /// Starts to move `bytes` between `local` and the object that is number `index` of `objects`.
    ///
    /// # Errors
    /// With the memory, which nothing touches.
    #[expect(unsafe_code, reason = "starts the access to the memory that the request owns")]
    pub(crate) fn post(
        agent: &Arc<Agent>,
        operation: Operation,
        mut local: Local,
        bytes: usize,
        object: (&Arc<Registration>, usize),
    ) -> Result<Self, Refused> {
        let (objects, index) = object;
        let device = objects.regions()[index].device;
        let block = Block { operation, address: local.address(), bytes, device };
        let handle = match agent.create_request(block) {
            Ok(handle) => handle,
            Err(status) => return Err((local, status)),
        };
        let mut request = Self {
            agent: Arc::clone(agent),
            handle: None,
            local: Some(local),
            is_over: false,
            _object: Arc::clone(objects),
        };
        let handle = request.handle.insert(handle);
        // SAFETY: the memory is in `request.local`, which nobody reaches before `poll` saw the end; a drop before leaves
        // it with the agent until that has ended.
        let posted = unsafe { agent.post(handle) };
        match posted {
            Ok(progress) => {
                request.is_over = progress == Progress::Done;
                Ok(request)
            }
            // A request of one descriptor that could not be posted has not started.
            Err(status) => match request.end() {
                Some(local) => Err((local, status)),
                None => unreachable!("the memory was put there above"),
            },
        }
    }

    /// Whose request this is.
    pub(crate) fn agent(&self) -> &Arc<Agent> {
        &self.agent
    }

    /// The memory and the outcome, once, when the request is over; `None` while it runs.
    pub(crate) fn poll(&mut self) -> Option<(Local, Result<(), Status>)> {
        let handle = self.handle.as_ref()?;
        let result = if self.is_over {
            Ok(())
        } else {
            match self.agent.status(handle) {
                Ok(Progress::Running) => return None,
                Ok(Progress::Done) => Ok(()),
                Err(status) => Err(status),
            }
        };
        self.end().map(|local| (local, result))
    }

    /// Forgets the request, which is over.
    fn end(&mut self) -> Option<Local> {
        if let Some(handle) = self.handle.take() {
            self.agent.release(handle);
        }
        self.local.take()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.agent.release(handle);
        }
        if let Some(local) = self.local.take() {
            self.agent.leave_behind(local.into_held());
        }
    }
}
