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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use s3s::dto::Checksum;

    use super::*;

    fn keys<'a>(keys: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, Arc<Object>> {
        let object = Arc::new(Object::new(Bytes::new(), String::new(), Arc::default(), Checksum::default()));
        keys.into_iter().map(|key| (key.to_owned(), Arc::clone(&object))).collect()
    }

    /// Follows a listing to its end; each page as its keys and its groups.
    fn pages(objects: &BTreeMap<String, Arc<Object>>, query: &Query<'_>) -> Vec<(Vec<String>, Vec<String>)> {
        let mut pages = Vec::new();
        let mut after = query.after.to_owned();
        loop {
            let page = Page::new(objects, &Query { after: &after, ..*query });
            pages.push((page.objects.into_iter().map(|(key, _)| key).collect(), page.common_prefixes));
            match page.next {
                Some(next) => after = next,
                None => return pages,
            }
        }
    }

    /// Each group is listed once, also when a page ends in front of, at or behind it; clients may hide a repeated one.
    #[test]
    fn groups_once() {
        let objects = keys(["a", "d/a/1", "d/a/2", "d/b", "d/c/1", "d/c/2", "d/d", "e"]);
        for entry_count_max in 1..=5 {
            let query = Query { prefix: "d/", delimiter: "/", after: "", entry_count_max };
            let pages = pages(&objects, &query);
            assert_eq!(pages.len(), 4_usize.div_ceil(entry_count_max));
            let listed: Vec<_> = pages.iter().flat_map(|page| &page.0).collect();
            let groups: Vec<_> = pages.iter().flat_map(|page| &page.1).collect();
            assert_eq!(listed, ["d/b", "d/d"], "{entry_count_max}");
            assert_eq!(groups, ["d/a/", "d/c/"], "{entry_count_max}");
        }
    }

    /// `after` excludes its own key, and a start in front of the prefix changes nothing.
    #[test]
    fn after() {
        let objects = keys(["a", "k/1", "k/2", "k/3"]);
        for (after, wanted) in [("k/1", &["k/2", "k/3"][..]), ("a", &["k/1", "k/2", "k/3"]), ("z", &[])] {
            let query = Query { prefix: "k/", delimiter: "", after, entry_count_max: 9 };
            assert_eq!(pages(&objects, &query)[0].0, wanted, "{after}");
        }
    }
}
