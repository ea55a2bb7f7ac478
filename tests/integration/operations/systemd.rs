//! What the service manager hears: when the proxy serves, that it is alive, and when it ends.

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::support::proxy::binary;

/// Ends the process however the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_service_manager_hears_of_start_life_and_end() {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().join("notify");
    let ear = UnixDatagram::bind(&path).expect("a socket");
    ear.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket has a timeout");
    let hear = || {
        let mut heard = [0; 512];
        let length = ear.recv(&mut heard).expect("something is said in time");
        String::from_utf8_lossy(&heard[..length]).into_owned()
    };
    let child = Command::new(binary())
        .args(["--upstream", "postgres://127.0.0.1:1", "--listen", "127.0.0.1:0", "--journal"])
        .arg(directory.path().join("journal.jsonl"))
        .current_dir(directory.path())
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "100000")
        .env_remove("WATCHDOG_PID")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut running = Running(child.expect("the binary starts"));
    let first = hear();
    assert!(first.starts_with("READY=1\n"), "{first}");
    assert_eq!([hear(), hear(), hear()], ["WATCHDOG=1"; 3]);
    let pid = running.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill is there").success());
    let last = std::iter::repeat_with(hear).find(|said| said != "WATCHDOG=1").unwrap_or_default();
    assert!(last.starts_with("STOPPING=1\n") && last.contains("EXTEND_TIMEOUT_USEC=70000000"), "{last}");
    assert_eq!(running.0.wait().expect("it was started").code(), Some(0));
}
