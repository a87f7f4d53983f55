//! One page of a listing.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::object::Object;

/// What a listing asks for.
#[derive(Debug)]
pub(super) struct Query<'a> {
    pub(super) prefix: &'a str,
    /// Groups keys by what follows `prefix` up to this; empty for no groups.
    pub(super) delimiter: &'a str,
    /// Only keys after this one.
    pub(super) after: &'a str,
    /// Most entries (objects and groups) on the page.
    pub(super) entry_count_max: usize,
}

/// One page of a listing, in the byte order of the keys.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) objects: Vec<(String, Arc<Object>)>,
    pub(super) common_prefixes: Vec<String>,
    /// The `after` of the next page; `None` on the last.
    pub(super) next: Option<String>,
}

impl Page {
    pub(super) fn new(objects: &BTreeMap<String, Arc<Object>>, query: &Query<'_>) -> Self {
        let mut page = Self::default();
        let mut last: Option<String> = None;
        loop {
            let from = match last.as_deref() {
                Some(last) => Bound::Excluded(last),
                None if query.after >= query.prefix => Bound::Excluded(query.after),
                None => Bound::Included(query.prefix),
            };
            let next = objects.range::<str, _>((from, Bound::Unbounded)).next();
            let Some((key, object)) = next.filter(|(key, _)| key.starts_with(query.prefix)) else {
                return page;
            };
            if page.objects.len() + page.common_prefixes.len() == query.entry_count_max {
                page.next = last;
                return page;
            }
            last = Some(if let Some(end) = group_end(key, query) {
                page.common_prefixes.push(key[..end].to_owned());
                // Sorts after every key of the group: it is listed once, and the next page starts behind it.
                format!("{}{}", &key[..end], char::MAX)
            } else {
                page.objects.push((key.clone(), Arc::clone(object)));
                key.clone()
            });
        }
    }
}

/// Where the group of `key` ends in it, if it belongs to one.
fn group_end(key: &str, query: &Query<'_>) -> Option<usize> {
    if query.delimiter.is_empty() {
        return None;
    }
    let start = query.prefix.len();
    key[start..].find(query.delimiter).map(|at| start + at + query.delimiter.len())
}
