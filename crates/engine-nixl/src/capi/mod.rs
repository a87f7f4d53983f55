//! The seam to NIXL's C API: the few operations that the engine needs, behind a trait that tests replace.
//!
//! Handles are moved into the call that ends them, so none is used after it or ended twice. The order in which they end
//! is kept by their owners: [`Agent`](crate::agent::Agent), [`Registration`](crate::agent::Registration),
//! [`Request`](crate::request::Request).
//!
//! nixl-sys's own Rust API is not used: it registers no object under a key, holds a lock through blocking calls, and
//! ignores the order of drops.

#![expect(unsafe_code, reason = "calls C; each block says which rule makes it sound")]

mod environment;
mod ffi;
pub(crate) mod library;
mod linked;

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::ptr::NonNull;

use kvtier_core::ObjectKey;

pub(crate) use linked::Linked;

/// An error of NIXL, which says no more than its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) i32);

impl Status {
    /// What the plugin answers for everything that goes wrong with a transfer.
    pub(crate) const BACKEND: Self = Self(-2);
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            -1 => "invalid parameter",
            -2 => "backend error",
            -3 => "invalid state",
            -4 => "exception",
            -6 => "not found",
            _ => "unknown error",
        };
        write!(f, "NIXL status {} ({name})", self.0)
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq, Eq)]
        pub(crate) struct $name(NonNull<c_void>);

        // SAFETY: an address that only NIXL follows. Agents are made with the read-write lock of NIXL's own, under which
        // every call used here may come from any thread; a request is polled by its one owner.
        unsafe impl Send for $name {}
        // SAFETY: as for `Send`.
        unsafe impl Sync for $name {}

        impl $name {
            #[cfg(test)]
            pub(crate) fn fake(number: usize) -> Self {
                Self(NonNull::new(std::ptr::without_provenance_mut(number)).unwrap())
            }

            #[cfg(test)]
            pub(crate) fn number(&self) -> usize {
                self.0.addr().get()
            }
        }
    };
}

handle!(
    /// An agent: owns the plugin's threads. Ending it waits for what runs on them.
    AgentHandle
);
handle!(
    /// The agent's OBJ backend.
    BackendHandle
);
handle!(
    /// Call options that name the backend.
    OptionsHandle
);
handle!(
    /// One transfer of one block.
    RequestHandle
);

/// What a descriptor describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Host memory.
    Host,
    /// Objects.
    Object,
}

/// One descriptor to register.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// First byte of host memory; 0 for an object.
    pub(crate) address: usize,
    /// At least 1: zero would register an object without bounds.
    pub(crate) bytes: usize,
    /// Names an object in requests; 0 for host memory.
    pub(crate) device: u64,
    /// The object's key.
    pub(crate) key: Option<ObjectKey>,
}

/// Which way a request moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Object to host memory.
    Read,
    /// Host memory to object.
    Write,
}

/// One request: `bytes` at `address` to or from the start of the object registered as `device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) operation: Operation,
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) device: u64,
}

/// Whether a request still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// NIXL may touch the memory.
    Running,
    /// It is over, and so is every access to the memory.
    Done,
}

/// What the engine does with NIXL.
///
/// # Contract
/// One call of each function maps to the C function of its name, with the descriptor lists it needs made and ended
/// inside. A failed call has acquired nothing; a failed release leaves the handle leaked. None blocks, except
/// `create_backend` (may look for credentials) and `destroy_agent` (waits for the plugin's running tasks, without bound).
#[cfg_attr(test, mockall::automock)]
pub(crate) trait Nixl: Send + Sync {
    fn create_agent(&self, name: &CStr) -> Result<AgentHandle, Status>;
    fn destroy_agent(&self, agent: AgentHandle) -> Result<(), Status>;
    fn create_backend(
        &self,
        agent: &AgentHandle,
        params: &[(CString, CString)],
    ) -> Result<BackendHandle, Status>;
    fn destroy_backend(&self, backend: BackendHandle) -> Result<(), Status>;
    fn create_options(&self, backend: &BackendHandle) -> Result<OptionsHandle, Status>;
    fn destroy_options(&self, options: OptionsHandle) -> Result<(), Status>;
    fn register(
        &self,
        agent: &AgentHandle,
        options: &OptionsHandle,
        memory: Memory,
        regions: &[Region],
    ) -> Result<(), Status>;
    fn deregister(
        &self,
        agent: &AgentHandle,
        options: &OptionsHandle,
        memory: Memory,
        regions: &[Region],
    ) -> Result<(), Status>;
    fn create_request(
        &self,
        agent: &AgentHandle,
        options: &OptionsHandle,
        name: &CStr,
        block: Block,
    ) -> Result<RequestHandle, Status>;
    /// Starts the request.
    ///
    /// # Safety
    /// Until a call of `post` or `status` for this request answered anything but [`Progress::Running`], or the agent is
    /// destroyed, the memory of its [`Block`] stays allocated and is touched by nobody else (read by others, for a
    /// write).
    unsafe fn post(&self, agent: &AgentHandle, request: &RequestHandle) -> Result<Progress, Status>;
    fn status(&self, agent: &AgentHandle, request: &RequestHandle) -> Result<Progress, Status>;
    /// Forgets the request. One that runs goes on running.
    fn release(&self, agent: &AgentHandle, request: RequestHandle) -> Result<(), Status>;
}
