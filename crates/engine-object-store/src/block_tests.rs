use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use kvtier_core::{Access, CompletionQueue, Direction, HostMemory, TransferId};
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions, PutResult,
    RenameOptions, Result,
};

use super::*;

/// A store that names one size and delivers other pieces.
#[derive(Debug)]
struct Liar {
    honest: InMemory,
    pieces: Vec<&'static [u8]>,
}

impl fmt::Display for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("liar")
    }
}

#[async_trait::async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Liar {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.honest.put_opts(path, payload, options).await
    }
    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.honest.put_multipart_opts(path, options).await
    }
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let mut result = self.honest.get_opts(path, options).await?;
        let pieces: Vec<_> = self.pieces.iter().map(|piece| Ok(Bytes::from_static(piece))).collect();
        result.payload = GetResultPayload::Stream(Box::pin(stream::iter(pieces)));
        Ok(result)
    }
    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.honest.get_ranges(path, ranges).await
    }
    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.honest.delete_stream(paths)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.honest.list(prefix)
    }
    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.honest.list_with_offset(prefix, offset)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.honest.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.honest.copy_opts(from, to, options).await
    }
    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.honest.rename_opts(from, to, options).await
    }
}

/// A load of 8 bytes into a memory of its own.
fn shared(queue: &Arc<CompletionQueue>) -> Shared {
    let lease = HostMemory::allocate(8, 1).unwrap().lease(0, Access::Write).unwrap();
    let key = kvtier_core::ObjectKey::new("a").unwrap();
    Arc::new(Mutex::new(Some(Transfer::new(TransferId(1), Direction::Load, key, lease, queue))))
}

async fn load_pieces(pieces: &[&'static [u8]]) -> (std::result::Result<(), Error>, Vec<u8>) {
    let liar = Liar { honest: InMemory::new(), pieces: pieces.to_vec() };
    liar.put_opts(&"a".into(), PutPayload::from(vec![0; 8]), PutOptions::default()).await.unwrap();
    let (queue, path) = (Arc::default(), Path::from("a"));
    let shared = shared(&queue);
    let result = load(&liar, &path, &shared).await;
    let bytes = shared.lock().as_ref().unwrap().to_vec();
    (result, bytes)
}

/// The bytes that come are counted, whatever size the store named: in pieces of any kind the whole block is
/// taken, and nothing else is.
#[tokio::test]
async fn what_is_streamed_is_counted() {
    let (result, bytes) = load_pieces(&[b"ab", b"", b"cdefg", b"h"]).await;
    result.unwrap();
    assert_eq!(bytes, b"abcdefgh");
    for (pieces, says) in [
        (&[&b"abc"[..]][..], "ended after 3"),
        (&[], "ended after 0"),
        (&[b"abcdefgh", b"i"], "goes on"),
        (&[b"abcdefghi"], "goes on"),
    ] {
        let (result, _) = load_pieces(pieces).await;
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("expected 8 bytes") && error.message().contains(says), "{error}");
    }
}

/// A transfer that was taken away is not written any more, in the middle of a file and of a stream.
#[tokio::test]
async fn a_transfer_that_was_taken_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, b"abcdefgh").unwrap();
    let queue = Arc::default();
    let shared = shared(&queue);
    let mut filled = Filled::new(&shared, &Path::from("a")).unwrap();
    filled.append(b"ab").unwrap();
    let taken = shared.lock().take().unwrap();
    assert_eq!(filled.append(b"cd").unwrap_err().kind(), ErrorKind::Timeout);
    assert!(read_file(File::open(&file).unwrap(), filled).is_err());
    assert_eq!(taken.to_vec(), b"ab\0\0\0\0\0\0");
}
