//! How many requests a server has seen.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;

/// Requests a server has received since it started, by HTTP method.
///
/// A request counts when its head has arrived, so refused and half-sent requests count as well.
/// `get` holds both object reads and listings; `post` holds bulk deletes and multipart starts and ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RequestCounts {
    /// GET requests.
    pub get: u64,
    /// PUT requests.
    pub put: u64,
    /// HEAD requests.
    pub head: u64,
    /// POST requests.
    pub post: u64,
    /// DELETE requests.
    pub delete: u64,
    /// Requests with any other method.
    pub other: u64,
}

impl RequestCounts {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.get + self.put + self.head + self.post + self.delete + self.other
    }
}

/// The running counters behind [`RequestCounts`].
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    get: AtomicU64,
    put: AtomicU64,
    head: AtomicU64,
    post: AtomicU64,
    delete: AtomicU64,
    other: AtomicU64,
}

impl RequestCounters {
    pub(crate) fn count(&self, method: &Method) {
        let counter = match *method {
            Method::GET => &self.get,
            Method::PUT => &self.put,
            Method::HEAD => &self.head,
            Method::POST => &self.post,
            Method::DELETE => &self.delete,
            _ => &self.other,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> RequestCounts {
        RequestCounts {
            get: self.get.load(Ordering::Relaxed),
            put: self.put.load(Ordering::Relaxed),
            head: self.head.load(Ordering::Relaxed),
            post: self.post.load(Ordering::Relaxed),
            delete: self.delete.load(Ordering::Relaxed),
            other: self.other.load(Ordering::Relaxed),
        }
    }
}
