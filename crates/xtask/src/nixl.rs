//! Provides what the NIXL engine needs: the library, for its tests, and libclang, for the build of nixl-sys. Both come
//! from pinned PyPI wheels that are only unpacked, never installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where everything is kept, under the workspace; removed by `cargo clean`.
const FOLDER: &str = "target/nixl";

/// A wheel, and what pip must see of it. CPython 3.11's is taken whatever Python runs pip: nothing imports it.
struct Wheel {
    name: &'static str,
    version: &'static str,
    sha256: &'static str,
    platform: &'static str,
}

const NIXL: Wheel = Wheel {
    name: "nixl-cu12",
    version: "1.5.1",
    sha256: "341d0dfa499f941c054614252f1d8047d1380e33f29c87707372ff5ec7d3779a",
    platform: "manylinux_2_28_x86_64",
};
const LIBCLANG: Wheel = Wheel {
    name: "libclang",
    version: "18.1.1",
    sha256: "c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b",
    platform: "manylinux2010_x86_64",
};

/// The environment for commands of cargo that build or test the NIXL engine.
pub(crate) struct Environment(Vec<(&'static str, PathBuf)>);

impl Environment {
    /// For a command that is about to run.
    pub(crate) fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.0.iter().map(|(name, value)| (*name, value)))
    }

    /// As a shell reads it.
    pub(crate) fn print(&self) {
        for (name, value) in &self.0 {
            println!("export {name}='{}'", value.display());
        }
    }
}

/// Fetches and unpacks what is missing; costs nothing when all is there. What the user has set is left alone.
pub(crate) fn provide() -> Result<Environment, String> {
    let mut variables = Vec::new();
    if env::var_os("KVTIER_NIXL_LIBRARY").is_none() {
        variables.push(("KVTIER_NIXL_LIBRARY", unpacked(&NIXL)?.join(".nixl_cu12.mesonpy.libs")));
    }
    if env::var_os("LIBCLANG_PATH").is_none() && !has_libclang() {
        let folder = format!("{}-{}.data/platlib/clang/native", LIBCLANG.name, LIBCLANG.version);
        variables.push(("LIBCLANG_PATH", unpacked(&LIBCLANG)?.join(folder)));
        // The wheel has the library without the headers that belong to a compiler.
        let mut flag = std::ffi::OsString::from("-I");
        flag.push(gcc_headers()?);
        variables.push(("BINDGEN_EXTRA_CLANG_ARGS", flag.into()));
    }
    Ok(Environment(variables))
}

/// Whether the system has a libclang with its headers where the build looks.
fn has_libclang() -> bool {
    let folders = [Path::new("/usr/lib"), Path::new("/usr/lib64"), Path::new("/usr/lib/x86_64-linux-gnu")];
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let llvm = versions
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm-"))
        .map(|entry| entry.path().join("lib"));
    let mut folders = folders.into_iter().map(Path::to_owned).chain(llvm);
    let is_libclang = |name: &str| name.starts_with("libclang.so") || name.starts_with("libclang-1");
    folders.any(|folder| {
        let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.any(|file| is_libclang(&file.file_name().to_string_lossy()))
    })
}

fn gcc_headers() -> Result<PathBuf, String> {
    let output = Command::new("gcc").arg("-print-file-name=include").output();
    let output = output.map_err(|error| format!("cannot run gcc: {error}"))?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if path.join("stdbool.h").is_file() {
        Ok(path)
    } else {
        Err("gcc has no folder of its own headers; is it installed?".to_owned())
    }
}

/// The folder of the unpacked wheel. It appears whole or not at all.
fn unpacked(wheel: &Wheel) -> Result<PathBuf, String> {
    let root = env::current_dir().map_err(|error| format!("no current directory: {error}"))?.join(FOLDER);
    let done = root.join(format!("{}-{}", wheel.name, wheel.version));
    if done.is_dir() {
        return Ok(done);
    }
    eprintln!("== fetching {} {} from PyPI into {FOLDER}", wheel.name, wheel.version);
    let fresh = root.join(format!("fresh-{}-{}", wheel.name, std::process::id()));
    fs::create_dir_all(&fresh).map_err(|error| format!("cannot make {}: {error}", fresh.display()))?;
    let result = fetch(wheel, &fresh).and_then(|()| {
        // Another process may have been faster.
        fs::rename(fresh.join("files"), &done)
            .or_else(|error| if done.is_dir() { Ok(()) } else { Err(error) })
            .map_err(|error| format!("cannot make {}: {error}", done.display()))
    });
    // What is left is of no use to anybody.
    let _ = fs::remove_dir_all(&fresh);
    result.map(|()| done)
}

fn fetch(wheel: &Wheel, into: &Path) -> Result<(), String> {
    let Wheel { name, version, sha256, platform } = wheel;
    let requirement = into.join("requirement.txt");
    fs::write(&requirement, format!("{name}=={version} --hash=sha256:{sha256}\n"))
        .map_err(|error| format!("cannot write {}: {error}", requirement.display()))?;
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
    ]);
    pip.args([
        "--only-binary=:all:",
        "--implementation",
        "cp",
        "--python-version",
        "3.11",
        "--platform",
        platform,
    ]);
    run(pip.arg("--dest").arg(into).arg("--requirement").arg(&requirement), name)?;
    let files = fs::read_dir(into).map_err(|error| format!("cannot read {}: {error}", into.display()))?;
    let file =
        files.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|is| is == "whl"));
    let file = file.ok_or_else(|| format!("pip brought no wheel of {name}"))?;
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(file).arg(into.join("files")), name)
}

fn run(command: &mut Command, name: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run python3 for {name}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "{name} could not be fetched ({status}); set KVTIER_NIXL_LIBRARY and LIBCLANG_PATH to use your own"
    ))
}
