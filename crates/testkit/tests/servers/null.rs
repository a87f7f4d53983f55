//! The null server looks enough like S3 for a block client.

use kvtier_testkit::{NullOptions, NullServer};
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _};

use crate::client::builder;

const BLOCK_BYTES: usize = 1 << 20;

/// Any key reads as the block, whole or in part; writes are taken and change nothing; shutdown closes the port.
#[tokio::test]
async fn null_server() {
    let options = NullOptions { block_bytes: BLOCK_BYTES, ..NullOptions::default() };
    let here = NullServer::start(&options).await.unwrap();
    let on_thread = NullServer::start_on_thread(&options).unwrap();
    for server in [here, on_thread] {
        let client = builder(server.endpoint())
            .with_bucket_name("any")
            .with_access_key_id("any")
            .with_secret_access_key("any")
            .build()
            .unwrap();
        let path = Path::from("any/key");
        client.put(&path, vec![1; 3 << 20].into()).await.unwrap();
        assert_eq!(client.head(&path).await.unwrap().size, BLOCK_BYTES as u64);
        assert_eq!(client.get(&path).await.unwrap().bytes().await.unwrap(), vec![0; BLOCK_BYTES]);
        assert_eq!(client.get_range(&path, 10..30).await.unwrap().len(), 20);
        assert_eq!(client.get_range(&path, 0..BLOCK_BYTES as u64 + 5).await.unwrap().len(), BLOCK_BYTES);
        let past_end = client.get_range(&path, BLOCK_BYTES as u64..BLOCK_BYTES as u64 + 1).await;
        assert!(matches!(past_end, Err(Error::Generic { .. })), "{past_end:?}");
        let addr = server.addr();
        server.shutdown().await;
        assert!(tokio::net::TcpStream::connect(addr).await.is_err());
    }
}
