use std::sync::Arc;

use async_trait::async_trait;
use kvtier_core::{Error, ErrorKind, ObjectKey};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use crate::BackDoor;

/// A back door to any store that the object_store crate reaches.
#[derive(Clone, Debug)]
pub struct ObjectStoreDoor(pub Arc<dyn ObjectStore>);

fn failed(what: &str, key: &ObjectKey, error: object_store::Error) -> Error {
    Error::with_source(ErrorKind::Unavailable, format!("{what} {key}: {error}"), error)
}

fn path(key: &ObjectKey) -> Result<Path, Error> {
    Path::parse(key.as_str())
        .map_err(|error| Error::with_source(ErrorKind::Unsupported, format!("name {key}: {error}"), error))
}

#[async_trait]
impl BackDoor for ObjectStoreDoor {
    async fn put(&self, key: &ObjectKey, bytes: Vec<u8>) -> Result<(), Error> {
        let put = self.0.put(&path(key)?, bytes.into()).await;
        put.map(drop).map_err(|error| failed("put", key, error))
    }

    async fn get(&self, key: &ObjectKey) -> Result<Option<Vec<u8>>, Error> {
        let got = match self.0.get(&path(key)?).await {
            Ok(got) => got.bytes().await,
            Err(error) => Err(error),
        };
        match got {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed("get", key, error)),
        }
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), Error> {
        match self.0.delete(&path(key)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed("delete", key, error)),
        }
    }
}
