//! Fixtures of the conformance suite for kvtier's own engines.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use kvtier_conformance::{BackDoor, Fault, FaultControl, Fixture, ObjectStoreDoor};
use kvtier_core::{Error, ObjectKey, TransferEngine};
use kvtier_engine_mock::{MockEngine, MockStore};
use kvtier_engine_object_store::s3_client;
use kvtier_store::StoreConfig;
use kvtier_testkit::{Fault as ProxyFault, FaultProxy, FaultRule};

/// Makes an engine of a store's options.
pub type Open = Box<dyn Fn() -> Result<Box<dyn TransferEngine>, Error> + Send + Sync>;

/// An engine on a store that the `object_store` crate reaches, too; behind a proxy or not.
pub struct StoreFixture {
    open: Open,
    door: ObjectStoreDoor,
    faults: Option<ProxyControl>,
}

impl StoreFixture {
    /// Engines that `open` makes, on the store behind `door`.
    pub fn new(door: ObjectStoreDoor, open: Open) -> Self {
        Self { open, door, faults: None }
    }

    /// Engines on an S3 server, which is reached by `config` without the proxy that makes it fail.
    ///
    /// # Errors
    /// As [`s3_client`].
    pub fn s3(config: &StoreConfig, proxy: Option<FaultProxy>, open: Open) -> Result<Self, Error> {
        let door = ObjectStoreDoor(Arc::new(s3_client(config)?));
        Ok(Self { open, door, faults: proxy.map(ProxyControl) })
    }
}

#[async_trait]
impl Fixture for StoreFixture {
    async fn open(&self) -> Result<Box<dyn TransferEngine>, Error> {
        (self.open)()
    }

    fn back_door(&self) -> &dyn BackDoor {
        &self.door
    }

    fn faults(&self) -> Option<&dyn FaultControl> {
        self.faults.as_ref().map(|faults| faults as &dyn FaultControl)
    }
}

impl fmt::Debug for StoreFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFixture").finish_non_exhaustive()
    }
}

/// Makes a store fail by the proxy before it.
#[derive(Debug)]
struct ProxyControl(FaultProxy);

#[async_trait]
impl FaultControl for ProxyControl {
    async fn inject(&self, key: &ObjectKey, fault: Fault, once: bool) {
        let fault = match fault {
            Fault::Cut => ProxyFault::Cut(100),
            Fault::Throttled => ProxyFault::refuse(503, "SlowDown"),
            Fault::Denied => ProxyFault::refuse(403, "AccessDenied"),
            Fault::Unavailable => ProxyFault::refuse(500, "InternalError"),
            // A fault of a later suite must not pass for none.
            Fault::Stalled | _ => ProxyFault::Hold,
        };
        let rule = if once {
            FaultRule::sequence(key.as_str(), [fault])
        } else {
            FaultRule::always(key.as_str(), fault)
        };
        self.0.replace(key.as_str(), rule);
    }

    async fn clear(&self) {
        self.0.clear();
    }
}

/// The mock engine, which performs everything at once.
#[derive(Debug, Default)]
pub struct MockFixture(MockStore);

#[async_trait]
impl Fixture for MockFixture {
    async fn open(&self) -> Result<Box<dyn TransferEngine>, Error> {
        Ok(Box::new(MockEngine::immediate(&self.0)))
    }

    fn back_door(&self) -> &dyn BackDoor {
        self
    }
}

#[async_trait]
impl BackDoor for MockFixture {
    async fn put(&self, key: &ObjectKey, bytes: Vec<u8>) -> Result<(), Error> {
        self.0.insert(key.clone(), bytes);
        Ok(())
    }

    async fn get(&self, key: &ObjectKey) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.get(key).map(Into::into))
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), Error> {
        self.0.remove(key);
        Ok(())
    }
}
