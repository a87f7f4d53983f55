//! Ceph RGW starts, serves its bucket, and is gone afterwards. Needs Debian's packages; the gate installs them and asks
//! for ignored tests.

use kvtier_testkit::CephRgw;

/// The server starts with its bucket, and its port is closed when it is dropped.
#[test]
#[ignore = "needs the packages radosgw, ceph-mon and ceph-osd"]
fn ceph_starts_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let ceph = CephRgw::start(folder.path()).unwrap();
    let authority = ceph.endpoint().trim_start_matches("http://").to_owned();
    assert!(std::net::TcpStream::connect(&authority).is_ok());
    drop(ceph);
    assert!(std::net::TcpStream::connect(&authority).is_err());
}
