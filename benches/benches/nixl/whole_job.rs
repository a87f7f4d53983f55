//! A client of NIXL's C API that does what vLLM's tier does for a job: registers all objects, posts one request with a
//! descriptor for each block, polls it, releases and deregisters. It checks no length and no bytes.
#![expect(unsafe_code, reason = "calls the C API directly, with handles that live as long as this client")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kvtier_core::{Access, CompletionQueue, Direction, HostMemory, ObjectKey, Transfer, TransferId};

type Opaque = *mut c_void;

#[repr(C)]
struct AgentConfig {
    enable_prog_thread: bool,
    enable_listen_thread: bool,
    listen_port: c_int,
    thread_sync: c_uint,
    num_workers: c_uint,
    pthr_delay_us: u64,
    lthr_delay_us: u64,
    capture_telemetry: bool,
}

unsafe extern "C" {
    fn nixl_capi_create_configured_agent(
        name: *const c_char,
        config: *const AgentConfig,
        agent: *mut Opaque,
    ) -> c_int;
    fn nixl_capi_destroy_agent(agent: Opaque) -> c_int;
    fn nixl_capi_create_params(params: *mut Opaque) -> c_int;
    fn nixl_capi_params_add(params: Opaque, key: *const c_char, value: *const c_char) -> c_int;
    fn nixl_capi_create_backend(
        agent: Opaque,
        plugin: *const c_char,
        params: Opaque,
        backend: *mut Opaque,
    ) -> c_int;
    fn nixl_capi_create_opt_args(args: *mut Opaque) -> c_int;
    fn nixl_capi_opt_args_add_backend(args: Opaque, backend: Opaque) -> c_int;
    fn nixl_capi_create_reg_dlist(memory: c_uint, list: *mut Opaque) -> c_int;
    fn nixl_capi_reg_dlist_add_desc(
        list: Opaque,
        address: usize,
        bytes: usize,
        device: u64,
        metadata: *const c_void,
        metadata_bytes: usize,
    ) -> c_int;
    fn nixl_capi_destroy_reg_dlist(list: Opaque) -> c_int;
    fn nixl_capi_register_mem(agent: Opaque, list: Opaque, args: Opaque) -> c_int;
    fn nixl_capi_deregister_mem(agent: Opaque, list: Opaque, args: Opaque) -> c_int;
    fn nixl_capi_create_xfer_dlist(memory: c_uint, list: *mut Opaque) -> c_int;
    fn nixl_capi_xfer_dlist_add_desc(list: Opaque, address: usize, bytes: usize, device: u64) -> c_int;
    fn nixl_capi_destroy_xfer_dlist(list: Opaque) -> c_int;
    fn nixl_capi_create_xfer_req(
        agent: Opaque,
        operation: c_uint,
        local: Opaque,
        remote: Opaque,
        remote_agent: *const c_char,
        request: *mut Opaque,
        args: Opaque,
    ) -> c_int;
    fn nixl_capi_post_xfer_req(agent: Opaque, request: Opaque, args: Opaque) -> c_int;
    fn nixl_capi_get_xfer_status(agent: Opaque, request: Opaque) -> c_int;
    fn nixl_capi_release_xfer_req(agent: Opaque, request: Opaque) -> c_int;
    fn nixl_capi_destroy_xfer_req(request: Opaque) -> c_int;
}

const DRAM: c_uint = 0;
const OBJECT: c_uint = 3;
const IN_PROGRESS: c_int = 1;
/// Between two looks at the request.
const POLL: Duration = Duration::from_millis(1);

fn ok(code: c_int) {
    assert_eq!(code, 0, "NIXL status");
}

pub(crate) struct WholeJob {
    agent: Opaque,
    args: Opaque,
    name: CString,
    names: Vec<ObjectKey>,
    base: usize,
    block_bytes: usize,
    next_device: AtomicU64,
    _memory: Arc<HostMemory>,
}

impl WholeJob {
    /// After an engine was opened, which loads the library. The environment is set as the engine sets it.
    pub(crate) fn new(endpoint: &str, threads: u32, memory: &Arc<HostMemory>, names: Vec<ObjectKey>) -> Self {
        let name = CString::new("whole-job").unwrap();
        let (mut agent, mut params, mut backend, mut args, mut list) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let config = AgentConfig {
            enable_prog_thread: false,
            enable_listen_thread: false,
            listen_port: 0,
            thread_sync: 2,
            num_workers: 1,
            pthr_delay_us: 0,
            lthr_delay_us: 0,
            capture_telemetry: false,
        };
        let queue = Arc::<CompletionQueue>::default();
        let lease = memory.lease(0, Access::Read).unwrap();
        let first = Transfer::new(TransferId(0), Direction::Store, names[0].clone(), lease, &queue);
        let (base, bytes) = first.memory_range();
        first.complete(Ok(()));
        // SAFETY: each call gets handles that a call before it made, texts that live until it returns, and the address of
        // memory that this client keeps.
        unsafe {
            for (key, value) in [("AWS_RETRY_MODE", "standard"), ("AWS_MAX_ATTEMPTS", "1")] {
                std::env::set_var(key, value);
            }
            ok(nixl_capi_create_configured_agent(name.as_ptr(), &raw const config, &raw mut agent));
            ok(nixl_capi_create_params(&raw mut params));
            for (key, value) in [
                ("bucket", "bench".to_owned()),
                ("endpoint_override", endpoint.to_owned()),
                ("scheme", "http".to_owned()),
                ("region", "us-east-1".to_owned()),
                ("access_key", "a".to_owned()),
                ("secret_key", "b".to_owned()),
                ("use_virtual_addressing", "false".to_owned()),
                ("req_checksum", "required".to_owned()),
                ("num_threads", threads.to_string()),
            ] {
                let (key, value) = (CString::new(key).unwrap(), CString::new(value).unwrap());
                ok(nixl_capi_params_add(params, key.as_ptr(), value.as_ptr()));
            }
            ok(nixl_capi_create_backend(agent, c"OBJ".as_ptr(), params, &raw mut backend));
            ok(nixl_capi_create_opt_args(&raw mut args));
            ok(nixl_capi_opt_args_add_backend(args, backend));
            ok(nixl_capi_create_reg_dlist(DRAM, &raw mut list));
            ok(nixl_capi_reg_dlist_add_desc(list, base, bytes, 0, ptr::null(), 0));
            ok(nixl_capi_register_mem(agent, list, args));
        }
        let block_bytes = memory.block_bytes();
        let next_device = AtomicU64::new(1);
        Self { agent, args, name, names, base, block_bytes, next_device, _memory: Arc::clone(memory) }
    }

    /// Moves every block, and returns when the request is over.
    pub(crate) fn run(&self, direction: Direction) {
        let operation = match direction {
            Direction::Load => 0,
            Direction::Store => 1,
        };
        let (mut objects, mut local, mut remote, mut request) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: as in `new`; nothing else touches the memory until the request is over.
        unsafe {
            ok(nixl_capi_create_reg_dlist(OBJECT, &raw mut objects));
            ok(nixl_capi_create_xfer_dlist(DRAM, &raw mut local));
            ok(nixl_capi_create_xfer_dlist(OBJECT, &raw mut remote));
            for (block, name) in self.names.iter().enumerate() {
                let (name, device) = (name.as_str(), self.next_device.fetch_add(1, Ordering::Relaxed));
                ok(nixl_capi_reg_dlist_add_desc(
                    objects,
                    0,
                    self.block_bytes,
                    device,
                    name.as_ptr().cast(),
                    name.len(),
                ));
                let address = self.base + block * self.block_bytes;
                ok(nixl_capi_xfer_dlist_add_desc(local, address, self.block_bytes, 0));
                ok(nixl_capi_xfer_dlist_add_desc(remote, 0, self.block_bytes, device));
            }
            ok(nixl_capi_register_mem(self.agent, objects, self.args));
            ok(nixl_capi_create_xfer_req(
                self.agent,
                operation,
                local,
                remote,
                self.name.as_ptr(),
                &raw mut request,
                self.args,
            ));
            let mut status = nixl_capi_post_xfer_req(self.agent, request, ptr::null_mut());
            while status == IN_PROGRESS {
                #[expect(clippy::disallowed_methods, reason = "polls as its model does")]
                std::thread::sleep(POLL);
                status = nixl_capi_get_xfer_status(self.agent, request);
            }
            ok(status);
            ok(nixl_capi_release_xfer_req(self.agent, request));
            ok(nixl_capi_destroy_xfer_req(request));
            ok(nixl_capi_destroy_xfer_dlist(local));
            ok(nixl_capi_destroy_xfer_dlist(remote));
            ok(nixl_capi_deregister_mem(self.agent, objects, self.args));
            ok(nixl_capi_destroy_reg_dlist(objects));
        }
    }
}

impl Drop for WholeJob {
    fn drop(&mut self) {
        // SAFETY: no request is left; the process ends soon after, and with it the small handles.
        ok(unsafe { nixl_capi_destroy_agent(self.agent) });
    }
}
