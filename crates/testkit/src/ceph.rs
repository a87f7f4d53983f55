//! A real S3 server of production: Ceph's RADOS gateway with one monitor and one memory-backed storage daemon.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::HttpRequestBody;

const ACCESS_KEY: &str = "kvtier-test-access";
const SECRET_KEY: &str = "kvtier-test-secret";
const BUCKET: &str = "kvcache";
const REGION: &str = "us-east-1";
/// Most seconds for one command of the set-up; each takes about one.
const COMMAND_SECONDS: &str = "120";
/// Looks for the gateway's port, 100 ms apart.
const START_TRIES: u32 = 600;

/// Ceph RGW on 127.0.0.1, for as long as this lives. Needs Debian's packages `radosgw`, `ceph-mon` and `ceph-osd`.
///
/// Known to differ from S3 (release 16): it refuses aws-chunked uploads without a length, ignores checksum
/// headers, and wants `If-Match` without quotes.
#[derive(Debug)]
pub struct CephRgw {
    /// In the order in which they are stopped.
    daemons: Vec<Child>,
    endpoint: String,
    folder: PathBuf,
}

impl CephRgw {
    /// Sets up a store with an empty bucket in `folder`, which must be empty and stays the caller's to remove. Takes
    /// about 10 s, on the caller's thread.
    ///
    /// # Errors
    /// When a package is missing, or a daemon does not start; its log is in `folder`.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        let [monitor, gateway] = [free_port()?, free_port()?];
        let conf = folder.join("ceph.conf");
        let cluster = cluster_id()?;
        for part in ["mon", "osd", "run", "log", "rgw"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(&conf, configuration(&folder, &cluster, monitor, gateway))?;
        let mut ceph = Self { daemons: Vec::new(), endpoint: format!("http://127.0.0.1:{gateway}"), folder };
        ceph.set_up(&cluster, monitor)?;
        ceph.await_port(gateway)?;
        ceph.create_bucket()?;
        Ok(ceph)
    }

    /// The base URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The bucket that exists from the start.
    pub fn bucket(&self) -> &'static str {
        BUCKET
    }

    /// The access key of the bucket's owner.
    pub fn access_key(&self) -> &'static str {
        ACCESS_KEY
    }

    /// The secret of [`access_key`](Self::access_key).
    pub fn secret_key(&self) -> &'static str {
        SECRET_KEY
    }

    /// The region to give to clients.
    pub fn region(&self) -> &'static str {
        REGION
    }

    fn set_up(&mut self, cluster: &str, monitor: u16) -> io::Result<()> {
        let map = self.folder.join("monmap");
        let address = format!("[v2:127.0.0.1:{monitor}]");
        let map_args =
            ["--create", "--fsid", cluster, "--addv", "a", &address, "--set-min-mon-release", "pacific"];
        self.run("monmaptool", map_args.map(OsStr::new).into_iter().chain([map.as_os_str()]))?;
        let mkfs = ["--mkfs", "-i", "a", "--monmap"].map(OsStr::new);
        self.run("ceph-mon", mkfs.into_iter().chain([map.as_os_str()]))?;
        self.spawn("ceph-mon", &["-f", "-i", "a"])?;
        self.run("ceph", ["osd", "create"])?;
        self.run("ceph-osd", ["-i", "0", "--mkfs"])?;
        self.spawn("ceph-osd", &["-f", "-i", "0"])?;
        let access_key = format!("--access-key={ACCESS_KEY}");
        let secret_key = format!("--secret-key={SECRET_KEY}");
        let user = ["user", "create", "--uid=test", "--display-name=test", &access_key, &secret_key];
        self.run("radosgw-admin", user)?;
        self.spawn("radosgw", &["-f", "-n", "client.rgw.a"])
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.folder.join("ceph.conf")).env_remove("CEPH_ARGS").stdin(Stdio::null());
        command
    }

    fn log(&self, program: &str) -> io::Result<File> {
        File::options().create(true).append(true).open(self.folder.join("log").join(format!("{program}.out")))
    }

    fn run<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> io::Result<()> {
        let mut command = Command::new("timeout");
        command.args([COMMAND_SECONDS, program]).stdin(Stdio::null()).env_remove("CEPH_ARGS");
        // It knows no configuration file.
        if program != "monmaptool" {
            command.arg("-c").arg(self.folder.join("ceph.conf"));
        }
        let status = command.args(args).stdout(self.log(program)?).stderr(self.log(program)?).status()?;
        if status.success() { Ok(()) } else { Err(self.failed(program, &status.to_string())) }
    }

    fn spawn(&mut self, program: &str, args: &[&str]) -> io::Result<()> {
        let mut command = self.command(program);
        command.args(args).stdout(self.log(program)?).stderr(self.log(program)?);
        let daemon = command.spawn().map_err(|error| self.failed(program, &error.to_string()))?;
        // The gateway first, the monitor last.
        self.daemons.insert(0, daemon);
        Ok(())
    }

    fn failed(&self, program: &str, why: &str) -> io::Error {
        let mut said = String::new();
        if let Ok(mut log) = File::open(self.folder.join("log").join(format!("{program}.out"))) {
            // Best effort: the error is told anyhow.
            let _ = log.read_to_string(&mut said);
        }
        let end: Vec<_> = said.lines().rev().take(5).collect();
        io::Error::other(format!(
            "{program} failed ({why}); are Debian's packages radosgw, ceph-mon and ceph-osd installed? It said: {end:?}"
        ))
    }

    fn await_port(&mut self, port: u16) -> io::Result<()> {
        for _ in 0..START_TRIES {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(());
            }
            for daemon in &mut self.daemons {
                if let Some(status) = daemon.try_wait()? {
                    return Err(self.failed("radosgw", &status.to_string()));
                }
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "another program's start has no event to wait for"
            )]
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(self.failed("radosgw", "no port in time"))
    }

    fn create_bucket(&self) -> io::Result<()> {
        let credential =
            AwsCredential { key_id: ACCESS_KEY.to_owned(), secret_key: SECRET_KEY.to_owned(), token: None };
        let request = http::Request::put(format!("{}/{BUCKET}", self.endpoint));
        let mut request = request.body(HttpRequestBody::empty()).map_err(io::Error::other)?;
        let signed = AwsAuthorizer::new(&credential, "s3", REGION).try_authorize(&mut request, None);
        signed.map_err(io::Error::other)?;
        // The signature covers the host, which is left to the client to send.
        let authority = self.endpoint.trim_start_matches("http://");
        let mut text = format!(
            "PUT /{BUCKET} HTTP/1.1\r\nhost: {authority}\r\ncontent-length: 0\r\nconnection: close\r\n"
        );
        for (name, value) in request.headers() {
            let value = value.to_str().map_err(io::Error::other)?;
            write!(text, "{name}: {value}\r\n").map_err(io::Error::other)?;
        }
        text.push_str("\r\n");
        let mut stream = TcpStream::connect(authority)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        stream.write_all(text.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(self.failed("radosgw", &answer)) }
    }
}

impl Drop for CephRgw {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            // It may have ended by itself; its data is thrown away, so nothing is lost by killing it.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn cluster_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// No authentication between the daemons, one copy, and as little waiting as they allow: the start takes 5 s instead of 12.
fn configuration(folder: &Path, cluster: &str, monitor: u16, gateway: u16) -> String {
    let folder = folder.display();
    format!(
        "[global]
fsid = {cluster}
mon host = v2:127.0.0.1:{monitor}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
mon data = {folder}/mon
osd data = {folder}/osd
run dir = {folder}/run
admin socket = {folder}/run/$name.$pid.asok
log file = {folder}/log/$name.log
crash dir = {folder}/log
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 2147483648
paxos propose interval = 0.05
paxos min wait = 0.01
[client.rgw.a]
rgw frontends = beast endpoint=127.0.0.1:{gateway}
ms mon client mode = crc
rgw data = {folder}/rgw
"
    )
}
