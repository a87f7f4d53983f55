//! Finds and loads NIXL's library. nixl-sys would end the process over a library or a function that is missing; here
//! both are errors with the loader's own words.

use std::env;
use std::path::{Path, PathBuf};

use kvtier_core::Error;
use kvtier_store::config_error;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use parking_lot::Mutex;

use super::{environment, ffi};

/// The file that nixl-sys looks for, by this name.
const FILE: &str = "libnixl_capi.so";
/// Names the library or its folder.
pub(crate) const VARIABLE: &str = "KVTIER_NIXL_LIBRARY";
/// Where the Python packages keep it, under `site-packages`.
const FOLDERS: [&str; 2] = [".nixl_cu12.mesonpy.libs", ".nixl_cu13.mesonpy.libs"];

/// Proof that every function of [`ffi`] is there.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    path: PathBuf,
}

impl Loaded {
    /// What was loaded.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The one library of the process; it is never unloaded.
static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

/// Loads the library, once per process: from `configured` (a file or its folder), the environment variable
/// [`VARIABLE`], an installed Python package, or wherever the loader finds it.
///
/// # Errors
/// `Config` if it cannot be loaded, lacks a function, or another one is loaded already.
pub(crate) fn load(configured: Option<&Path>) -> Result<Loaded, Error> {
    let wanted = match configured {
        Some(path) => file(path),
        None => find(&|name| env::var_os(name).map(PathBuf::from)),
    };
    let mut slot = LOADED.lock();
    if let Some(loaded) = &*slot {
        if configured.is_some() && loaded.path != wanted {
            return Err(config_error(format!(
                "NIXL is loaded already, from {}; a process has one",
                loaded.path.display()
            )));
        }
        return Ok(loaded.clone());
    }
    environment::quiet();
    let loaded = open(wanted)?;
    *slot = Some(loaded.clone());
    Ok(loaded)
}

fn open(path: PathBuf) -> Result<Loaded, Error> {
    // SAFETY: runs the initialisers of NIXL and what it links, as every program that links it does.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| {
        config_error(format!(
            "NIXL's library cannot be loaded: {error}; install the Python package nixl-cu12 and set `nixl_library` or \
             {VARIABLE} to its {FILE}"
        ))
    })?;
    for name in ffi::NAMES {
        // SAFETY: only the address is asked for; it is not called through this.
        let found = unsafe { library.get::<*const ()>(name.as_bytes()) };
        found.map_err(|error| {
            config_error(format!("NIXL at {} is not a version this engine knows: {error}", path.display()))
        })?;
    }
    // Kept for ever: NIXL's threads outlive every agent.
    std::mem::forget(library);
    // nixl-sys finds what is loaded by its name, and remembers the answer.
    if nixl_sys::is_stub() {
        return Err(config_error(format!("{} does not call itself {FILE}", path.display())));
    }
    Ok(Loaded { path })
}

fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_owned() }
}

/// Reads one environment variable.
type Variables<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

fn find(variables: Variables<'_>) -> PathBuf {
    if let Some(path) = variables(VARIABLE) {
        return file(&path);
    }
    let installed = roots(variables).iter().flat_map(|root| site_packages(root)).find_map(|site| {
        FOLDERS.iter().map(|folder| site.join(folder).join(FILE)).find(|path| path.is_file())
    });
    installed.unwrap_or_else(|| PathBuf::from(FILE))
}

/// Where Python installations live: the active virtual environment, the folder of each `python3` on the path, the
/// user's own packages.
fn roots(variables: Variables<'_>) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = variables("VIRTUAL_ENV").into_iter().collect();
    let path = variables("PATH").unwrap_or_default();
    for bin in env::split_paths(&path).filter(|bin| bin.join("python3").exists()) {
        roots.extend(bin.parent().map(Path::to_owned));
    }
    roots.extend(variables("HOME").map(|home| home.join(".local")));
    roots
}

/// `lib/python3.*/site-packages` and Debian's `dist-packages` under `root`.
fn site_packages(root: &Path) -> Vec<PathBuf> {
    let folders = ["lib", "lib64"].iter().filter_map(|lib| root.join(lib).read_dir().ok()).flatten();
    let pythons =
        folders.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    pythons
        .flat_map(|entry| ["site-packages", "dist-packages"].map(|folder| entry.path().join(folder)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The variable comes before an installed package, which comes before the loader's own search.
    #[test]
    fn the_library_is_found_in_order() {
        let root = tempfile::tempdir().unwrap();
        let venv = |name: &str| (name == "VIRTUAL_ENV").then(|| root.path().to_owned());
        assert_eq!(find(&venv), Path::new(FILE));
        let folder = root.path().join("lib/python3.11/site-packages").join(FOLDERS[1]);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(FILE), "").unwrap();
        assert_eq!(find(&venv), folder.join(FILE));
        let elsewhere = |name: &str| match name {
            VARIABLE => Some(PathBuf::from("/elsewhere/lib.so")),
            name => venv(name),
        };
        assert_eq!(find(&elsewhere), Path::new("/elsewhere/lib.so"));
    }

    /// What is no library is an error with the loader's words; nothing ends the process.
    #[test]
    fn a_missing_library_is_an_error() {
        for (path, words) in [("/nowhere/libnixl_capi.so", "cannot open"), ("/dev/null", "too short")] {
            let error = open(PathBuf::from(path)).unwrap_err();
            assert_eq!(error.kind(), kvtier_core::ErrorKind::Config);
            assert!(error.message().contains(words), "{error}");
        }
    }

    /// A library without the functions is refused by the name of the first one that is missing.
    #[test]
    fn a_library_of_something_else_is_refused() {
        let error = open(PathBuf::from("libc.so.6")).unwrap_err();
        assert!(error.message().contains(ffi::NAMES[0]), "{error}");
    }
}
