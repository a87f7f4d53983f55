//! Opening and checking the directory of a local store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use kvtier_core::Error;
use kvtier_store::config_error;
use object_store::local::LocalFileSystem;

/// Makes the directory if it is missing, and opens it as a store. Also returns its canonical path.
///
/// # Errors
/// `Config` if it cannot be made, is no directory, or cannot be written.
pub(crate) fn open(dir: &Path) -> Result<(LocalFileSystem, PathBuf), Error> {
    let failed = |error: io::Error| unusable(dir, &error);
    fs::create_dir_all(dir).map_err(failed)?;
    let root = dir.canonicalize().map_err(failed)?;
    check(&root)?;
    let store = LocalFileSystem::new_with_prefix(&root).map_err(|error| config_error(error.to_string()))?;
    Ok((store, root))
}

/// Proves that the directory is there and can be written, by writing a file and removing it.
///
/// # Errors
/// `Config`, with what the system says.
pub(crate) fn check(root: &Path) -> Result<(), Error> {
    static TURN: AtomicU64 = AtomicU64::new(0);
    // Ends in `#` and digits: the store takes such a file for an unfinished one and never lists it.
    let name = format!("kvtier-probe#{}{:04}", process::id(), TURN.fetch_add(1, Ordering::Relaxed));
    let file = root.join(name);
    let written = fs::write(&file, b"kvtier");
    // A full disk leaves an empty file: it goes, too.
    let removed = fs::remove_file(&file);
    written.and(removed).map_err(|error| unusable(root, &error))
}

fn unusable(dir: &Path, error: &io::Error) -> Error {
    config_error(format!("directory {} cannot be used: {error}", dir.display()))
}

#[cfg(test)]
mod tests {
    use kvtier_core::ErrorKind;

    use super::*;

    /// A missing directory is made with its parents, and opening leaves nothing in it.
    #[test]
    fn opening_makes_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (_, root) = open(&dir.path().join("a/b")).unwrap();
        assert!(root.ends_with("a/b"));
        assert_eq!(root.read_dir().unwrap().count(), 0);
    }

    /// A path that is a file or goes through one, and a directory that went away, are told from a usable directory.
    #[test]
    fn an_unusable_directory_is_a_configuration_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"x").unwrap();
        for error in [
            open(&file).unwrap_err(),
            open(&file.join("below")).unwrap_err(),
            check(&dir.path().join("gone")).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(dir.path().to_str().unwrap()), "{error}");
        }
    }
}
