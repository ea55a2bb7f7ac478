//! The file of a socket in a directory: taken without a moment in which it is not there or has other
//! permissions, and removed only by whom it belongs to.

use super::listener::ListenOptions;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::net::UnixListener;

/// How long another process that takes a socket in the same directory is waited for.
const TURN: Duration = Duration::from_secs(2);

/// A socket's file. Removed when dropped, unless it is somebody else's by then.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode: what is at `path` may have been replaced.
    identity: (u64, u64),
}

impl SocketFile {
    /// Listens at `path`. A file that a process left behind when it died is replaced; with `reuse_port`, so is
    /// one at which somebody listens: who connects from then on comes here.
    pub fn take(path: &Path, options: ListenOptions) -> io::Result<(UnixListener, Self)> {
        let _turn = turn(path);
        match vacant(path) {
            Err(_) if options.reuse_port && !is_a_servers(path) => {}
            other => other?,
        }
        // Made under another name, so that nobody sees it before its permissions are right.
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(name);
        remove_socket(&new)?;
        let listener = UnixListener::bind(&new)?;
        let made = fs::set_permissions(&new, Permissions::from_mode(options.socket_mode))
            .and_then(|()| identity(&new))
            .and_then(|identity| {
                if fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
                    return Err(not_a_socket());
                }
                fs::rename(&new, path)?;
                Ok(identity)
            });
        match made {
            Ok(identity) => Ok((listener, Self { path: path.to_owned(), identity })),
            Err(error) => {
                let _ = fs::remove_file(&new);
                Err(error)
            }
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _turn = turn(&self.path);
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn not_a_socket() -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket has this name")
}

/// Whether nobody listens at `path`. Anything but a refusal may be a listener whose queue is full.
fn vacant(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(()),
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another process listens there")),
        Err(error) => Err(error),
    }
}

/// Whether the socket is that of a Postgres server, which keeps a lock file beside it.
fn is_a_servers(path: &Path) -> bool {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    Path::new(&lock).exists()
}

fn remove_socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(found) if !found.file_type().is_socket() => Err(not_a_socket()),
        _ => fs::remove_file(path),
    }
}

/// Locks the directory, so that of two processes that find a file left behind only one replaces it. A lock
/// that cannot be had (not every file system knows them) is done without.
fn turn(path: &Path) -> Option<File> {
    let directory = File::open(path.parent()?).ok()?;
    let deadline = Instant::now() + TURN;
    loop {
        match directory.try_lock() {
            Ok(()) => return Some(directory),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: ListenOptions = ListenOptions { reuse_port: false, socket_mode: 0o770 };
    const SHARED: ListenOptions = ListenOptions { reuse_port: true, socket_mode: 0o777 };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[tokio::test]
    async fn a_socket_has_its_permissions_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".s.PGSQL.1");
        let (_listener, file) = SocketFile::take(&path, MINE).unwrap();
        assert_eq!(mode(&path), 0o770);
        assert!(UnixStream::connect(&path).is_ok());
        drop(file);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_is_left_behind_is_replaced_and_what_is_in_use_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".s.PGSQL.1");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let _taken = SocketFile::take(&path, MINE).unwrap();
        let error = SocketFile::take(&path, MINE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[tokio::test]
    async fn who_takes_over_keeps_the_file_when_the_other_leaves() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".s.PGSQL.1");
        let (first, first_file) = SocketFile::take(&path, MINE).unwrap();
        let (second, second_file) = SocketFile::take(&path, SHARED).unwrap();
        assert_eq!(mode(&path), 0o777);
        drop((first_file, first));
        let _client = UnixStream::connect(&path).unwrap();
        second.accept().await.unwrap();
        drop(second_file);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn the_socket_of_a_server_is_never_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".s.PGSQL.1");
        let _server = std::os::unix::net::UnixListener::bind(&path).unwrap();
        fs::write(directory.path().join(".s.PGSQL.1.lock"), "1").unwrap();
        assert_eq!(SocketFile::take(&path, SHARED).unwrap_err().kind(), ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".s.PGSQL.1");
        fs::write(&path, "precious").unwrap();
        for options in [MINE, SHARED] {
            assert!(SocketFile::take(&path, options).is_err());
        }
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
