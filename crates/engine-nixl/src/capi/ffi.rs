//! The functions of NIXL's C API that the engine calls. nixl-sys links them; it finds the library when the first one is
//! called, and ends the process if it cannot, so [`library::load`](super::library::load) comes before them.
//!
//! Source: `wrapper.h` of nixl-sys 1.5.2, whose own bindings are private.

// Brings nixl-sys's static library into the link.
use nixl_sys as _;

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `nixl_capi_status_t`: 0 done, 1 in progress, below zero an error.
pub(super) type Code = c_int;
/// Any of the opaque `nixl_capi_*_t`.
pub(super) type Opaque = *mut c_void;

pub(super) const DONE: Code = 0;
pub(super) const IN_PROGRESS: Code = 1;
pub(super) const MEMORY_DRAM: c_uint = 0;
pub(super) const MEMORY_OBJECT: c_uint = 3;
pub(super) const OPERATION_READ: c_uint = 0;
pub(super) const OPERATION_WRITE: c_uint = 1;
pub(super) const SYNC_READ_WRITE: c_uint = 2;

/// `nixl_capi_agent_config_t`.
#[repr(C)]
pub(super) struct AgentConfig {
    pub(super) enable_prog_thread: bool,
    pub(super) enable_listen_thread: bool,
    pub(super) listen_port: c_int,
    pub(super) thread_sync: c_uint,
    pub(super) num_workers: c_uint,
    pub(super) pthr_delay_us: u64,
    pub(super) lthr_delay_us: u64,
    pub(super) capture_telemetry: bool,
}

/// Every name below, to be looked up before one of them is called.
pub(super) const NAMES: [&str; 23] = [
    "nixl_capi_create_configured_agent",
    "nixl_capi_destroy_agent",
    "nixl_capi_create_params",
    "nixl_capi_params_add",
    "nixl_capi_destroy_params",
    "nixl_capi_create_backend",
    "nixl_capi_destroy_backend",
    "nixl_capi_create_opt_args",
    "nixl_capi_opt_args_add_backend",
    "nixl_capi_destroy_opt_args",
    "nixl_capi_create_reg_dlist",
    "nixl_capi_reg_dlist_add_desc",
    "nixl_capi_destroy_reg_dlist",
    "nixl_capi_register_mem",
    "nixl_capi_deregister_mem",
    "nixl_capi_create_xfer_dlist",
    "nixl_capi_xfer_dlist_add_desc",
    "nixl_capi_destroy_xfer_dlist",
    "nixl_capi_create_xfer_req",
    "nixl_capi_post_xfer_req",
    "nixl_capi_get_xfer_status",
    "nixl_capi_release_xfer_req",
    "nixl_capi_destroy_xfer_req",
];

unsafe extern "C" {
    pub(super) fn nixl_capi_create_configured_agent(
        name: *const c_char,
        config: *const AgentConfig,
        agent: *mut Opaque,
    ) -> Code;
    pub(super) fn nixl_capi_destroy_agent(agent: Opaque) -> Code;

    pub(super) fn nixl_capi_create_params(params: *mut Opaque) -> Code;
    pub(super) fn nixl_capi_params_add(params: Opaque, key: *const c_char, value: *const c_char) -> Code;
    pub(super) fn nixl_capi_destroy_params(params: Opaque) -> Code;

    pub(super) fn nixl_capi_create_backend(
        agent: Opaque,
        plugin: *const c_char,
        params: Opaque,
        backend: *mut Opaque,
    ) -> Code;
    pub(super) fn nixl_capi_destroy_backend(backend: Opaque) -> Code;

    pub(super) fn nixl_capi_create_opt_args(args: *mut Opaque) -> Code;
    pub(super) fn nixl_capi_opt_args_add_backend(args: Opaque, backend: Opaque) -> Code;
    pub(super) fn nixl_capi_destroy_opt_args(args: Opaque) -> Code;

    pub(super) fn nixl_capi_create_reg_dlist(memory: c_uint, list: *mut Opaque) -> Code;
    pub(super) fn nixl_capi_reg_dlist_add_desc(
        list: Opaque,
        address: usize,
        bytes: usize,
        device: u64,
        metadata: *const c_void,
        metadata_bytes: usize,
    ) -> Code;
    pub(super) fn nixl_capi_destroy_reg_dlist(list: Opaque) -> Code;
    pub(super) fn nixl_capi_register_mem(agent: Opaque, list: Opaque, args: Opaque) -> Code;
    pub(super) fn nixl_capi_deregister_mem(agent: Opaque, list: Opaque, args: Opaque) -> Code;

    pub(super) fn nixl_capi_create_xfer_dlist(memory: c_uint, list: *mut Opaque) -> Code;
    pub(super) fn nixl_capi_xfer_dlist_add_desc(
        list: Opaque,
        address: usize,
        bytes: usize,
        device: u64,
    ) -> Code;
    pub(super) fn nixl_capi_destroy_xfer_dlist(list: Opaque) -> Code;

    pub(super) fn nixl_capi_create_xfer_req(
        agent: Opaque,
        operation: c_uint,
        local: Opaque,
        remote: Opaque,
        remote_agent: *const c_char,
        request: *mut Opaque,
        args: Opaque,
    ) -> Code;
    pub(super) fn nixl_capi_post_xfer_req(agent: Opaque, request: Opaque, args: Opaque) -> Code;
    pub(super) fn nixl_capi_get_xfer_status(agent: Opaque, request: Opaque) -> Code;
    pub(super) fn nixl_capi_release_xfer_req(agent: Opaque, request: Opaque) -> Code;
    pub(super) fn nixl_capi_destroy_xfer_req(request: Opaque) -> Code;
}
