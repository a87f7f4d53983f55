//! The testkit's servers as a process of their own, for benches.

use std::error::Error;
use std::io::{self, Write as _};
use std::thread;

use clap::Parser;
use kvtier_testkit::{EtagSource, NullOptions, NullServer, S3Options, S3Server};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Serves S3 from memory on 127.0.0.1 until standard input closes, or SIGTERM or Ctrl-C arrives.
///
/// Prints one JSON line with endpoint, bucket, access_key, secret_key and region, then nothing more.
#[derive(Debug, Parser)]
struct Args {
    /// Port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Take ETags from the MD5 of the body instead of a counter
    #[arg(long, conflicts_with = "null")]
    md5: bool,
    /// Serve the null server: one block for every key, no checks
    #[arg(long)]
    null: bool,
    /// Size in bytes of the null server's block
    #[arg(long, requires = "null", default_value_t = 0)]
    block_bytes: usize,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    // Before the line goes out: whoever reads it may send the signal at once.
    let stop = stop_request()?;
    if args.null {
        let server =
            NullServer::start(&NullOptions { block_bytes: args.block_bytes, port: args.port }).await?;
        // The null server takes any bucket and credentials; the line has the same fields, so that readers need no
        // second case.
        announce(server.endpoint(), "any", ["any", "any"], "us-east-1")?;
        stop.await;
        server.shutdown().await;
    } else {
        let etag = if args.md5 { EtagSource::Md5 } else { EtagSource::Counter };
        let server =
            S3Server::start_with(&S3Options { etag, port: args.port, ..S3Options::default() }).await?;
        let credentials = [server.access_key(), server.secret_key()];
        announce(server.endpoint(), server.bucket(), credentials, server.region())?;
        stop.await;
        server.shutdown().await;
    }
    Ok(())
}

fn announce(endpoint: &str, bucket: &str, credentials: [&str; 2], region: &str) -> io::Result<()> {
    let [access_key, secret_key] = credentials;
    let line = json!({
        "endpoint": endpoint,
        "bucket": bucket,
        "access_key": access_key,
        "secret_key": secret_key,
        "region": region,
    });
    writeln!(io::stdout(), "{line}")
}

/// Resolves when standard input closes, or SIGTERM or Ctrl-C arrives. Listens from the call on.
fn stop_request() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (closing, closed) = oneshot::channel::<()>();
    // A thread and not tokio's stdin: a read pending there would keep the runtime, and so the process, from ending.
    thread::Builder::new().name("stdin".into()).spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(closing);
    })?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = closed => {}
        }
    })
}
