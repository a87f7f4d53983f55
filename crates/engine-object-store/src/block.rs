//! Moving one block between a store and a slot.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use futures_util::StreamExt;
use kvtier_core::{Error, ErrorKind, Transfer};
use object_store::path::Path;
use object_store::{GetOptions, GetResultPayload, ObjectStore, PutMode, PutOptions, PutPayload};
use parking_lot::Mutex;

use crate::buffers::Buffers;
use crate::classify::classify;

/// A transfer that two may reach: the task that answers for it, and the thread that reads a file for it. Whoever takes
/// it out completes it; the thread finds nothing and stops. So a read that hangs in the kernel holds no slot.
pub(crate) type Shared = Arc<Mutex<Option<Transfer>>>;

/// Bytes read from a file at a time: small enough to stay in the cache between the two copies.
const FILE_CHUNK_BYTES: usize = 128 << 10;

/// Stores the block. The one copy frees the slot of the HTTP stack, which may hold a body long after its
/// request has failed or was dropped.
pub(crate) async fn store(
    store: &dyn ObjectStore,
    path: &Path,
    shared: &Shared,
    buffers: &Arc<Buffers>,
) -> Result<(), Error> {
    let Some(block) = shared.lock().as_ref().map(|transfer| buffers.copy(transfer)) else {
        return Err(taken());
    };
    let options = PutOptions { mode: PutMode::Overwrite, ..PutOptions::default() };
    let stored = store.put_opts(path, PutPayload::from(block), options).await;
    stored.map(drop).map_err(|error| classify(&format!("PUT {path}"), &error))
}

/// Loads the block: each piece of the object is copied into the slot as it arrives.
pub(crate) async fn load(store: &dyn ObjectStore, path: &Path, shared: &Shared) -> Result<(), Error> {
    let failed = |error| classify(&format!("GET {path}"), &error);
    let object = store.get_opts(path, GetOptions::default()).await.map_err(failed)?;
    let mut filled = Filled::new(shared, path)?;
    filled.expect(object.meta.size)?;
    match object.payload {
        GetResultPayload::Stream(mut pieces) => {
            while let Some(piece) = pieces.next().await {
                filled.append(&piece.map_err(failed)?)?;
            }
            filled.finish()
        }
        GetResultPayload::File(file, _) => {
            let read = tokio::task::spawn_blocking(move || read_file(file, filled)).await;
            // The runtime is shut down, or the read panicked.
            read.unwrap_or_else(|error| {
                Err(Error::new(ErrorKind::Closed, format!("the read ended early: {error}")))
            })
        }
    }
}

fn read_file(mut file: File, mut filled: Filled) -> Result<(), Error> {
    let mut chunk = vec![0; FILE_CHUNK_BYTES.min(filled.block_bytes.max(1))];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return filled.finish(),
            Ok(bytes) => filled.append(&chunk[..bytes])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let error = object_store::Error::Generic { store: "file", source: error.into() };
                return Err(classify(&format!("GET {}", filled.path), &error));
            }
        }
    }
}

/// How much of a block has arrived in its slot.
struct Filled {
    shared: Shared,
    path: Path,
    block_bytes: usize,
    at: usize,
}

impl Filled {
    fn new(shared: &Shared, path: &Path) -> Result<Self, Error> {
        let block_bytes = shared.lock().as_ref().ok_or_else(taken)?.block_bytes();
        Ok(Self { shared: Arc::clone(shared), path: path.clone(), block_bytes, at: 0 })
    }

    fn expect(&self, object_bytes: u64) -> Result<(), Error> {
        if usize::try_from(object_bytes) == Ok(self.block_bytes) {
            return Ok(());
        }
        Err(self.corrupt(&format!("holds {object_bytes}")))
    }

    fn append(&mut self, piece: &[u8]) -> Result<(), Error> {
        let end = self.at + piece.len();
        if end > self.block_bytes {
            return Err(self.corrupt("goes on"));
        }
        self.shared.lock().as_mut().ok_or_else(taken)?.copy_in(self.at, piece);
        self.at = end;
        Ok(())
    }

    fn finish(self) -> Result<(), Error> {
        if self.at == self.block_bytes {
            return Ok(());
        }
        Err(self.corrupt(&format!("ended after {}", self.at)))
    }

    fn corrupt(&self, found: &str) -> Error {
        let message = format!("GET {}: expected {} bytes, the object {found}", self.path, self.block_bytes);
        Error::new(ErrorKind::Corrupt, message)
    }
}

/// The transfer is complete already; nobody sees this error.
fn taken() -> Error {
    Error::new(ErrorKind::Timeout, "the transfer was given up")
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
