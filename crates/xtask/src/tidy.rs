use std::fs;
use std::path::{Path, PathBuf};

/// A longer file is probably two things.
const FILE_LINES_MAX: usize = 450;
/// Folders whose Rust files are checked.
const ROOTS: [&str; 4] = ["crates", "tests", "benches", "fuzz"];

/// Reports every Rust file that is too long.
pub(crate) fn check() -> Result<(), String> {
    let mut files = Vec::new();
    for root in ROOTS {
        rust_files(Path::new(root), &mut files).map_err(|error| format!("cannot read {root}: {error}"))?;
    }
    let mut findings = Vec::new();
    for path in &files {
        let text =
            fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        findings.extend(finding(path, &text));
    }
    if findings.is_empty() {
        println!("tidy: {} files", files.len());
        return Ok(());
    }
    Err(findings.join("\n"))
}

fn finding(path: &Path, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > FILE_LINES_MAX).then(|| {
        format!("{}: {lines} lines, at most {FILE_LINES_MAX}: is it really one thing?", path.display())
    })
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                rust_files(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check sees a file one line too long, and lets the longest allowed one pass.
    #[test]
    fn a_long_file_is_found() {
        let file = |lines| finding(Path::new("a.rs"), &"\n".repeat(lines));
        assert_eq!(file(FILE_LINES_MAX), None);
        assert!(file(FILE_LINES_MAX + 1).is_some());
    }
}
