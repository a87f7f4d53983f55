use std::fmt;
use std::str::FromStr;

use kvtier_core::{Error, ErrorKind, TransferEngine};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

/// The engines of this build, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EngineKind {
    /// The reference engine, on the `object_store` crate: S3, a local directory, memory.
    #[cfg(feature = "object-store")]
    ObjectStore,
    /// The production engine: S3 through NIXL's OBJ plugin.
    #[cfg(feature = "nixl")]
    Nixl,
    /// The mock engine, which performs everything at once, in memory. For tests.
    #[cfg(feature = "mock")]
    Mock,
}

impl EngineKind {
    /// Every engine of this build.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "object-store")]
        Self::ObjectStore,
        #[cfg(feature = "nixl")]
        Self::Nixl,
        #[cfg(feature = "mock")]
        Self::Mock,
    ];

    /// The engine's name in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            #[cfg(feature = "object-store")]
            Self::ObjectStore => "object-store",
            #[cfg(feature = "nixl")]
            Self::Nixl => "nixl",
            #[cfg(feature = "mock")]
            Self::Mock => "mock",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EngineKind {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::Config`] for a name that this build has no engine for; the message lists those it has.
    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            let message = format!("there is no engine {name:?} in this build; it has: {}", names.join(", "));
            Error::new(ErrorKind::Config, message)
        })
    }
}

/// An engine on a store, ready for a tier.
#[derive(Debug)]
pub struct OpenStore {
    /// The engine.
    pub engine: Box<dyn TransferEngine>,
    /// What the store's URL says that all names begin with; for the key mapper. May be empty.
    pub prefix: String,
}

/// Opens a store by its URL with an engine chosen at run time.
///
/// `config` has the fields that vLLM's users write in `store_config`. Nothing is sent:
/// [`TransferEngine::probe`] tells whether the store answers.
///
/// # Errors
/// [`ErrorKind::Config`], saying what is wrong with the URL or the configuration; never with a secret in it.
#[cfg_attr(not(feature = "object-store"), expect(unused_variables, reason = "other engines need less"))]
pub fn open(
    engine: EngineKind,
    url: &str,
    config: &Map<String, Value>,
    runtime: &Handle,
) -> Result<OpenStore, Error> {
    match engine {
        #[cfg(feature = "object-store")]
        EngineKind::ObjectStore => {
            use kvtier_engine_object_store::{ObjectStoreEngine, StoreConfig, StoreUrl};
            let url: StoreUrl = url.parse()?;
            let engine = ObjectStoreEngine::open(&url, &StoreConfig::from_json(config)?, runtime.clone())?;
            Ok(OpenStore { engine: Box::new(engine), prefix: url.prefix().to_owned() })
        }
        #[cfg(feature = "nixl")]
        EngineKind::Nixl => {
            use kvtier_engine_nixl::{NixlEngine, StoreConfig, StoreUrl};
            let url: StoreUrl = url.parse()?;
            let engine = NixlEngine::open(&url, &StoreConfig::from_json(config)?)?;
            Ok(OpenStore { engine: Box::new(engine), prefix: url.prefix().to_owned() })
        }
        #[cfg(feature = "mock")]
        EngineKind::Mock => {
            if url != "memory://" || !config.is_empty() {
                return Err(Error::new(
                    ErrorKind::Config,
                    "the mock engine has memory:// alone, and no options",
                ));
            }
            let engine = kvtier_engine_mock::MockEngine::immediate(&kvtier_engine_mock::MockStore::default());
            Ok(OpenStore { engine: Box::new(engine), prefix: String::new() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that is not in the build is refused by name, with those that are.
    #[test]
    fn unknown_engines_are_refused() {
        let error = "nixxl".parse::<EngineKind>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        for kind in EngineKind::ALL {
            assert!(error.message().contains(kind.as_str()));
            assert_eq!(kind.as_str().parse::<EngineKind>().unwrap(), *kind);
        }
    }
}
