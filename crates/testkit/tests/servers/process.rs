//! The servers as a process of their own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use object_store::ObjectStoreExt as _;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use serde_json::Value;

use crate::client::builder;

/// A running `kvtier-s3`, killed on drop so that a failed test leaves nothing behind.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    client: AmazonS3,
}

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kvtier-s3"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let announced: Value = serde_json::from_str(&line).unwrap();
        let field = |name: &str| announced[name].as_str().unwrap().to_owned();
        let client = builder(&field("endpoint"))
            .with_bucket_name(field("bucket"))
            .with_region(field("region"))
            .with_access_key_id(field("access_key"))
            .with_secret_access_key(field("secret_key"))
            .build()
            .unwrap();
        let stdin = child.stdin.take();
        Self { child, stdin, client }
    }

    /// Waits for the end after `stdin` was closed or a signal was sent.
    fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The S3 server of the process takes and gives back objects, and ends with 0 when its input closes.
#[tokio::test]
async fn serves_until_stdin_closes() {
    let mut process = Process::start(&["--md5"]);
    let path = Path::from("key");
    process.client.put(&path, "body".into()).await.unwrap();
    assert_eq!(process.client.get(&path).await.unwrap().bytes().await.unwrap(), "body");
    drop(process.stdin.take());
    assert!(process.wait().success());
}

/// The null server of the process answers blocks of the asked size, and ends with 0 on SIGTERM and on Ctrl-C.
#[tokio::test]
async fn serves_until_a_signal() {
    for signal in ["-TERM", "-INT"] {
        let mut process = Process::start(&["--null", "--block-bytes", "4096"]);
        let got = process.client.get(&Path::from("key")).await.unwrap();
        assert_eq!(got.bytes().await.unwrap().len(), 4096);
        let sent = Command::new("kill").arg(signal).arg(process.child.id().to_string()).status().unwrap();
        assert!(sent.success());
        assert!(process.wait().success());
    }
}
