//! Being told to stop.

use std::io;

use tokio::signal;

/// Ends with Ctrl-C or, on Unix, a request to terminate.
pub(crate) async fn stop_signal() -> io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = signal::unix::signal(signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupt = signal::ctrl_c() => interrupt,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    signal::ctrl_c().await
}
