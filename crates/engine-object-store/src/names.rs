use std::path::PathBuf;

use kvtier_core::{Error, ErrorKind, ObjectKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;

/// Which object names a store takes as they are.
///
/// `Path::parse` keeps a name as it stands, or trims one `/` at either end, or refuses it (empty and dot segments,
/// ASCII control characters). Percent signs, spaces, `#`, `?` and non-ASCII text stay: they are encoded on the wire
/// and decoded by the server. So a name that comes back changed is one that would reach another object.
#[derive(Debug)]
pub(crate) enum Names {
    /// Any name that `Path` keeps.
    Keys,
    /// Names that are also the path of a file below a directory.
    Files {
        /// The store, which turns names into file names through a URL.
        store: LocalFileSystem,
        /// The canonical path of its directory.
        root: PathBuf,
    },
}

/// Longest segment of a name in a directory. File systems take 255 bytes; the store writes to
/// `{name}#{number}` first.
const FILE_SEGMENT_BYTES_MAX: usize = 240;

impl Names {
    /// The name for object_store's calls.
    ///
    /// # Errors
    /// `Unsupported` if the store would rewrite the name or cannot hold it.
    pub(crate) fn path(&self, key: &ObjectKey) -> Result<Path, Error> {
        let name = key.as_str();
        let path = Path::parse(name).map_err(|error| unsupported(key, &error.to_string()))?;
        if path.as_ref() != name {
            return Err(unsupported(key, &format!("it would become `{path}`")));
        }
        if let Self::Files { store, root } = self {
            if name.split('/').any(|segment| segment.len() > FILE_SEGMENT_BYTES_MAX) {
                let why = format!(
                    "a segment is longer than the {FILE_SEGMENT_BYTES_MAX} bytes that a file's name may have"
                );
                return Err(unsupported(key, &why));
            }
            // Refuses names that end in `#` and digits: those are the store's unfinished files.
            let file =
                store.path_to_filesystem(&path).map_err(|error| unsupported(key, &error.to_string()))?;
            if file != root.join(name) {
                return Err(unsupported(key, &format!("its file would be {}", file.display())));
            }
        }
        Ok(path)
    }
}

fn unsupported(key: &ObjectKey, why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("object name `{key}` cannot be used here: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &tempfile::TempDir) -> Names {
        let root = dir.path().canonicalize().unwrap();
        Names::Files { store: LocalFileSystem::new_with_prefix(&root).unwrap(), root }
    }

    fn refused(names: &Names, name: &str) -> bool {
        // What `ObjectKey` itself refuses cannot reach an engine.
        let Ok(key) = ObjectKey::new(name) else { return true };
        match names.path(&key) {
            Ok(path) => {
                assert_eq!(path.as_ref(), name);
                false
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                true
            }
        }
    }

    /// Odd names that reach the store unchanged are taken; this includes everything vLLM's names can hold.
    #[test]
    fn names_that_stay_as_they_are_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        for names in [Names::Keys, files(&dir)] {
            for name in [
                "kv/000/10_g0/0001.bin",
                "org_モデル_e88c587e0bdf_r0/a b/c.bin",
                "a%2Fb",
                "a%2e%2e/b",
                "100%",
                "a#b",
                "a?b=c&d+e",
                "a\\b",
                "...",
                "c:",
                "C|/x",
                "a\u{85}b",
                "~{}[]<>|^`\"*",
                "#1/a",
            ] {
                assert!(!refused(&names, name), "{name} under {names:?}");
            }
        }
    }

    /// Names that object_store would trim, or could not address, are refused, never rewritten.
    #[test]
    fn names_that_would_change_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for names in [Names::Keys, files(&dir)] {
            for name in [
                "", "/a", "a/", "a//b", "/", ".", "..", "a/./b", "a/../b", "a\nb", "a\0b", "a\tb", "a\u{7f}b",
            ] {
                assert!(refused(&names, name), "{name:?} under {names:?}");
            }
        }
    }

    /// What only a directory cannot hold is refused there alone.
    #[test]
    fn a_directory_refuses_what_is_no_file_name() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(FILE_SEGMENT_BYTES_MAX + 1);
        for name in ["a#1", "a/b#007", long.as_str()] {
            assert!(refused(&files(&dir), name), "{name}");
            assert!(!refused(&Names::Keys, name), "{name}");
        }
        assert!(!refused(&files(&dir), &long[1..]));
    }
}
