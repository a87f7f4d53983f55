//! Which store a command works on.

use std::{error::Error, path::Path};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use kvtier::{EngineKind, TransferEngine};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use url::Url;

/// A store, its configuration, and the engine that reaches it.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// Where blocks are kept: `s3://bucket/prefix`, `file:///directory`, or `memory://`. By default a
    /// directory is made in the current one.
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// The server of an S3 store, such as `http://127.0.0.1:9000`; by default that of AWS.
    #[arg(long, value_name = "URL", requires = "store")]
    endpoint: Option<String>,

    /// An option of the store, `key=value`, or several as a JSON object, with the names of vLLM's
    /// `store_config`; may be repeated. Without keys, the AWS default credential chain is used.
    #[arg(long, value_name = "KEY=VALUE", requires = "store")]
    store_config: Vec<String>,

    /// The engine that moves the blocks.
    #[arg(long, value_name = "NAME", default_value_t = EngineKind::ObjectStore, value_parser = engines())]
    engine: EngineKind,
}

/// The engines of this build, named in the help.
fn engines() -> impl TypedValueParser<Value = EngineKind> {
    PossibleValuesParser::new(EngineKind::ALL.iter().map(|kind| kind.as_str()))
        .try_map(|name| name.parse::<EngineKind>())
}

/// A store that is ready for a tier.
pub(crate) struct OpenedStore {
    pub(crate) engine: Box<dyn TransferEngine>,
    pub(crate) prefix: String,
    /// The URL, for people.
    pub(crate) url: String,
}

impl StoreArgs {
    /// Opens the store; without one given, a directory of this name.
    pub(crate) fn open(&self, default: &Path, runtime: &Handle) -> Result<OpenedStore, Box<dyn Error>> {
        let url = match &self.store {
            Some(url) => url.clone(),
            None => directory_url(default)?,
        };
        let store = kvtier::open(self.engine, &url, &self.config()?, runtime)?;
        Ok(OpenedStore { engine: store.engine, prefix: store.prefix, url })
    }

    /// The URL, if one is given.
    pub(crate) fn url(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// Which engine is asked for.
    pub(crate) fn engine(&self) -> EngineKind {
        self.engine
    }

    /// The store's options.
    pub(crate) fn config(&self) -> Result<Map<String, Value>, Box<dyn Error>> {
        let mut config = Map::new();
        let endpoint =
            self.endpoint.iter().map(|endpoint| ("endpoint_override".to_owned(), endpoint.as_str().into()));
        let mut options: Vec<(String, Value)> = endpoint.collect();
        for option in &self.store_config {
            if option.trim_start().starts_with('{') {
                let object: Map<_, _> =
                    serde_json::from_str(option).map_err(|error| format!("--store-config: {error}"))?;
                options.extend(object);
            } else {
                // The text is not shown: somebody may have forgotten the key of a secret.
                let (key, value) =
                    option.split_once('=').ok_or("--store-config: key=value or a JSON object is expected")?;
                options.push((key.trim().to_owned(), value.into()));
            }
        }
        for (key, value) in options {
            if config.insert(key.clone(), value).is_some() {
                return Err(format!("--store-config: `{key}` is given twice").into());
            }
        }
        Ok(config)
    }
}

/// The URL of a directory, with everything escaped that means something in a URL.
fn directory_url(path: &Path) -> Result<String, Box<dyn Error>> {
    let path = std::path::absolute(path)?;
    let url =
        Url::from_file_path(&path).map_err(|()| format!("no URL for the directory {}", path.display()))?;
    Ok(url.into())
}
