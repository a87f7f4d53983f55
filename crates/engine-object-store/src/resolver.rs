use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

/// Resolves names so that successive connections begin at successive addresses: a store of several nodes
/// behind one name gets its share of connections on each.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpreadingResolver {
    turn: Arc<AtomicUsize>,
}

impl Service<Name> for SpreadingResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let mut addresses: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            spread(&mut addresses, turn);
            Ok(addresses.into_iter())
        })
    }
}

/// Rotates the leading addresses of one family. The system puts the family first that it can reach.
fn spread(addresses: &mut [SocketAddr], turn: usize) {
    let Some(first) = addresses.first() else { return };
    let is_v4 = first.is_ipv4();
    let same = addresses.iter().take_while(|address| address.is_ipv4() == is_v4).count();
    addresses[..same].rotate_left(turn % same);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each address of the preferred family gets its turn; the other family stays behind it.
    #[test]
    fn connections_spread_over_one_family() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let resolved = ["10.0.0.1:0", "10.0.0.2:0", "10.0.0.3:0", "[::1]:0"].map(parse);
        let mut firsts = Vec::new();
        for turn in 0..4 {
            let mut addresses = resolved;
            spread(&mut addresses, turn);
            firsts.push(addresses[0]);
            assert_eq!(addresses[3], resolved[3]);
        }
        assert_eq!(firsts, [resolved[0], resolved[1], resolved[2], resolved[0]]);
        spread(&mut [], 3);
    }
}
