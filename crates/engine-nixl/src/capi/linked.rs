use std::ffi::{CStr, CString, c_uint};
use std::ptr::{self, NonNull};

use super::ffi::{self, Code, Opaque};
use super::{
    AgentHandle, BackendHandle, Block, Memory, Nixl, Operation, OptionsHandle, Progress, Region,
    RequestHandle, Status, environment,
};
use crate::capi::library::Loaded;

/// The real library.
pub(crate) struct Linked {
    /// Every function below exists in the process.
    _loaded: Loaded,
}

impl Linked {
    pub(crate) fn new(loaded: Loaded) -> Self {
        Self { _loaded: loaded }
    }
}

/// The one plugin that the engine uses.
const PLUGIN: &CStr = c"OBJ";

// Every `unsafe` block below calls a function that `Loaded` has found, with handles that are alive: they are
// borrowed or moved in, and the owners keep an agent alive longer than what was made from it. Pointers to arguments live
// until the end of the call; NIXL copies what it keeps.

fn check(code: Code) -> Result<(), Status> {
    if code == ffi::DONE { Ok(()) } else { Err(Status(code)) }
}

fn progress(code: Code) -> Result<Progress, Status> {
    match code {
        ffi::DONE => Ok(Progress::Done),
        ffi::IN_PROGRESS => Ok(Progress::Running),
        code => Err(Status(code)),
    }
}

/// Calls a function that makes something.
fn make(create: impl FnOnce(*mut Opaque) -> Code) -> Result<NonNull<std::ffi::c_void>, Status> {
    let mut made = ptr::null_mut();
    check(create(&raw mut made))?;
    NonNull::new(made).ok_or(Status::BACKEND)
}

/// Something that only lives for one call.
struct Temporary {
    handle: NonNull<std::ffi::c_void>,
    destroy: unsafe extern "C" fn(Opaque) -> Code,
}

impl Temporary {
    fn get(&self) -> Opaque {
        self.handle.as_ptr()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // SAFETY: `handle` was made by the counterpart of `destroy`, and only this ends it.
        let code = unsafe { (self.destroy)(self.handle.as_ptr()) };
        debug_assert_eq!(code, ffi::DONE);
    }
}

fn kind(memory: Memory) -> c_uint {
    match memory {
        Memory::Host => ffi::MEMORY_DRAM,
        Memory::Object => ffi::MEMORY_OBJECT,
    }
}

fn registration_list(memory: Memory, regions: &[Region]) -> Result<Temporary, Status> {
    // SAFETY: see the top of this file.
    let handle = make(|list| unsafe { ffi::nixl_capi_create_reg_dlist(kind(memory), list) })?;
    let list = Temporary { handle, destroy: ffi::nixl_capi_destroy_reg_dlist };
    for region in regions {
        let key = region.key.as_ref().map_or("", |key| key.as_str());
        let (address, bytes, device) = (region.address, region.bytes, region.device);
        // SAFETY: see the top of this file; the key's bytes are copied.
        let code = unsafe {
            ffi::nixl_capi_reg_dlist_add_desc(
                list.get(),
                address,
                bytes,
                device,
                key.as_ptr().cast(),
                key.len(),
            )
        };
        check(code)?;
    }
    Ok(list)
}

fn transfer_list(memory: Memory, address: usize, bytes: usize, device: u64) -> Result<Temporary, Status> {
    // SAFETY: see the top of this file.
    let handle = make(|list| unsafe { ffi::nixl_capi_create_xfer_dlist(kind(memory), list) })?;
    let list = Temporary { handle, destroy: ffi::nixl_capi_destroy_xfer_dlist };
    // SAFETY: see the top of this file.
    check(unsafe { ffi::nixl_capi_xfer_dlist_add_desc(list.get(), address, bytes, device) })?;
    Ok(list)
}

impl Nixl for Linked {
    fn create_agent(&self, name: &CStr) -> Result<AgentHandle, Status> {
        let config = ffi::AgentConfig {
            enable_prog_thread: false,
            enable_listen_thread: false,
            listen_port: 0,
            thread_sync: ffi::SYNC_READ_WRITE,
            num_workers: 1,
            pthr_delay_us: 0,
            lthr_delay_us: 0,
            capture_telemetry: false,
        };
        // SAFETY: see the top of this file.
        make(|agent| unsafe {
            ffi::nixl_capi_create_configured_agent(name.as_ptr(), &raw const config, agent)
        })
        .map(AgentHandle)
    }

    fn destroy_agent(&self, agent: AgentHandle) -> Result<(), Status> {
        // SAFETY: see the top of this file.
        check(unsafe { ffi::nixl_capi_destroy_agent(agent.0.as_ptr()) })
    }

    fn create_backend(
        &self,
        agent: &AgentHandle,
        params: &[(CString, CString)],
    ) -> Result<BackendHandle, Status> {
        // SAFETY: see the top of this file.
        let handle = make(|list| unsafe { ffi::nixl_capi_create_params(list) })?;
        let list = Temporary { handle, destroy: ffi::nixl_capi_destroy_params };
        for (key, value) in params {
            // SAFETY: see the top of this file; both texts are copied.
            check(unsafe { ffi::nixl_capi_params_add(list.get(), key.as_ptr(), value.as_ptr()) })?;
        }
        let has_keys = params.iter().any(|(key, _)| key.as_c_str() == c"access_key");
        let _environment = environment::without_retries(has_keys);
        let agent = agent.0.as_ptr();
        // SAFETY: see the top of this file.
        make(|backend| unsafe { ffi::nixl_capi_create_backend(agent, PLUGIN.as_ptr(), list.get(), backend) })
            .map(BackendHandle)
    }

    fn destroy_backend(&self, backend: BackendHandle) -> Result<(), Status> {
        // SAFETY: see the top of this file.
        check(unsafe { ffi::nixl_capi_destroy_backend(backend.0.as_ptr()) })
    }

    fn create_options(&self, backend: &BackendHandle) -> Result<OptionsHandle, Status> {
        // SAFETY: see the top of this file.
        let options = make(|options| unsafe { ffi::nixl_capi_create_opt_args(options) })?;
        // SAFETY: see the top of this file.
        let code = unsafe { ffi::nixl_capi_opt_args_add_backend(options.as_ptr(), backend.0.as_ptr()) };
        let options = OptionsHandle(options);
        if let Err(status) = check(code) {
            let _ = self.destroy_options(options);
            return Err(status);
        }
        Ok(options)
    }

    fn destroy_options(&self, options: OptionsHandle) -> Result<(), Status> {
        // SAFETY: see the top of this file.
        check(unsafe { ffi::nixl_capi_destroy_opt_args(options.0.as_ptr()) })
    }

    fn register(
        &self,
        agent: &AgentHandle,
        options: &OptionsHandle,
        memory: Memory,
        regions: &[Region],
    ) -> Result<(), Status> {
        let list = registration_list(memory, regions)?;
        // SAFETY: see the top of this file.
        check(unsafe { ffi::nixl_capi_register_mem(agent.0.as_ptr(), list.get(), options.0.as_ptr()) })
    }

    fn deregister(
        &self,
        agent: &AgentHandle,
        options: &OptionsHandle,
        memory: Memory,
        regions: &[Region],
    ) -> Result<(), Status> {
        let list = registration_list(memory, regions)?;
        // SAFETY: see the top of this file.
        check(unsafe { ffi::nixl_capi_deregister_mem(agent.0.as_ptr(), list.get(), options.0.as_ptr()) })
    }

    fn create_request(
        &self,
        agent: &AgentHandle,
        options: &OptionsHandle,
        name: &CStr,
        block: Block,
    ) -> Result<RequestHandle, Status> {
        let operation = match block.operation {
            Operation::Read => ffi::OPERATION_READ,
            Operation::Write => ffi::OPERATION_WRITE,
        };
        let local = transfer_list(Memory::Host, block.address, block.bytes, 0)?;
        let remote = transfer_list(Memory::Object, 0, block.bytes, block.device)?;
        let (agent, options) = (agent.0.as_ptr(), options.0.as_ptr());
        // SAFETY: see the top of this file.
        make(|request| unsafe {
            ffi::nixl_capi_create_xfer_req(
                agent,
                operation,
                local.get(),
                remote.get(),
                name.as_ptr(),
                request,
                options,
            )
        })
        .map(RequestHandle)
    }

    unsafe fn post(&self, agent: &AgentHandle, request: &RequestHandle) -> Result<Progress, Status> {
        // SAFETY: see the top of this file; the memory is the caller's promise.
        progress(unsafe {
            ffi::nixl_capi_post_xfer_req(agent.0.as_ptr(), request.0.as_ptr(), ptr::null_mut())
        })
    }

    fn status(&self, agent: &AgentHandle, request: &RequestHandle) -> Result<Progress, Status> {
        // SAFETY: see the top of this file.
        progress(unsafe { ffi::nixl_capi_get_xfer_status(agent.0.as_ptr(), request.0.as_ptr()) })
    }

    fn release(&self, agent: &AgentHandle, request: RequestHandle) -> Result<(), Status> {
        // SAFETY: see the top of this file.
        check(unsafe { ffi::nixl_capi_release_xfer_req(agent.0.as_ptr(), request.0.as_ptr()) })?;
        // SAFETY: as above; the release has emptied the request, which frees nothing twice.
        check(unsafe { ffi::nixl_capi_destroy_xfer_req(request.0.as_ptr()) })
    }
}
