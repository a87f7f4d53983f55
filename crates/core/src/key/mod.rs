//! Keys: what identifies a block, what its object is called, and the layouts between the two.

mod mapper;
mod object_key;
mod offload_key;
mod sharded;
mod text;
mod vllm;
mod vllm_namespace;

pub use mapper::KeyMapper;
pub use object_key::ObjectKey;
pub use offload_key::OffloadKey;
pub use sharded::ShardedKeys;
pub use vllm::VllmKeys;
pub use vllm_namespace::{VllmGroup, VllmNamespace};
