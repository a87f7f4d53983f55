//! Where a command writes to.

use std::{
    fs::{self, File},
    io::{self, BufWriter, ErrorKind, Stdout, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;
use thiserror::Error;

/// The path that stands for standard output.
const STDOUT: &str = "-";

/// Output that cannot be written.
#[derive(Debug, Error)]
#[error("cannot write to {}", quoted(target))]
pub(crate) struct OutputError {
    target: PathBuf,
    source: io::Error,
}

impl OutputError {
    /// Whether whoever read standard output has gone, as `head` does. That is no failure of the command.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        is_stdout(&self.target) && self.source.kind() == ErrorKind::BrokenPipe
    }
}

/// A place to write to: standard output, a device, or a file that appears complete or not at all.
///
/// Dropped before [`finish`](Self::finish), it leaves no file, and a file that was there before stays as it was.
#[derive(Debug)]
pub(crate) struct Output {
    target: PathBuf,
    writer: BufWriter<Sink>,
}

#[derive(Debug)]
enum Sink {
    Stdout(Stdout),
    /// Something that exists and is no file, such as `/dev/null` or a pipe. Renaming over it would replace it.
    Device(File),
    /// A file under a temporary name, next to the path that it gets in the end.
    File(NamedTempFile, PathBuf),
}

impl Output {
    /// Opens `target`, or standard output if it is `-`.
    pub(crate) fn create(target: &Path) -> Result<Self, OutputError> {
        let target = target.to_owned();
        match Sink::open(&target) {
            Ok(sink) => Ok(Self { target, writer: BufWriter::new(sink) }),
            Err(source) => Err(OutputError { target, source }),
        }
    }

    /// Lets `write` write; its errors get the target's name.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        write(&mut self.writer).map_err(|source| OutputError { target: self.target.clone(), source })
    }

    /// Writes out what is buffered, and gives a file its name.
    pub(crate) fn finish(self) -> Result<(), OutputError> {
        let Self { target, writer } = self;
        let finished = writer.into_inner().map_err(io::IntoInnerError::into_error).and_then(Sink::finish);
        finished.map_err(|source| OutputError { target, source })
    }
}

impl Sink {
    fn open(target: &Path) -> io::Result<Self> {
        if is_stdout(target) {
            return Ok(Self::Stdout(io::stdout()));
        }
        match fs::metadata(target) {
            Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
            Ok(found) if found.is_file() => Self::new_file(fs::canonicalize(target)?),
            Ok(_) => File::options().write(true).open(target).map(Self::Device),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::new_file(target.to_owned()),
            Err(error) => Err(error),
        }
    }

    fn new_file(path: PathBuf) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".kvtier-");
        // A temporary file is for its owner only, but this one becomes an ordinary file. The umask still applies.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        Ok(Self::File(builder.tempfile_in(folder)?, path))
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Stdout(mut stdout) => stdout.flush(),
            Self::Device(_) => Ok(()),
            Self::File(file, path) => {
                file.as_file().sync_all()?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(bytes),
            Self::Device(file) => file.write(bytes),
            Self::File(file, _) => file.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Device(file) => file.flush(),
            Self::File(file, _) => file.as_file_mut().flush(),
        }
    }
}

/// Writes `text` to standard output.
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    let mut output = Output::create(Path::new(STDOUT))?;
    output.write(|writer| writer.write_all(text.as_bytes()))?;
    output.finish()
}

fn quoted(target: &Path) -> String {
    if is_stdout(target) { "standard output".to_owned() } else { format!("`{}`", target.display()) }
}

pub(crate) fn is_stdout(target: &Path) -> bool {
    target.as_os_str() == STDOUT
}
