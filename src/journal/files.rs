//! Which files a journal is made of: where it is by default, and what the ones set aside are called.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// The journal's file when the settings name none: in the state directory of the platform.
///
/// `None`: the user has no home directory.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    state_path(root, std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

fn state_path(root: bool, state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // The XDG Base Directory Specification: a relative path is invalid and to be ignored.
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = if root {
        PathBuf::from("/var/lib")
    } else {
        absolute(state_home).or_else(|| Some(absolute(home)?.join(".local/state")))?
    };
    Some(state.join("untwin/journal.jsonl"))
}

/// The `n`-th file set aside, 1 being the latest: `journal.jsonl`, `journal.1.jsonl`, `journal.2.jsonl` …
pub(super) fn set_aside(path: &Path, n: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{n}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// The numbers of the files set aside that exist, the latest (the smallest) first.
pub(super) fn numbers(path: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory(path))? {
        numbers.extend(number(path, &entry?.file_name()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The file whose lock guards the journal among processes.
pub(super) fn lock(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    path.with_file_name(name)
}

/// The directory of the journal; a bare file name is in the current one.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// The number in the name of a file set aside.
fn number(path: &Path, name: &OsStr) -> Option<u32> {
    let stem = path.file_stem()?.as_encoded_bytes();
    let mut digits = name.as_encoded_bytes().strip_prefix(stem)?.strip_prefix(b".")?;
    if let Some(extension) = path.extension() {
        digits = digits.strip_suffix(extension.as_encoded_bytes())?.strip_suffix(b".")?;
    }
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number > 0 && set_aside(path, number).file_name() == Some(name)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_in_the_state_directory() {
        for (root, state_home, home, expected) in [
            (true, Some("/state"), Some("/root"), Some("/var/lib/untwin/journal.jsonl")),
            (false, Some("/state"), Some("/home/ann"), Some("/state/untwin/journal.jsonl")),
            (false, None, Some("/home/ann"), Some("/home/ann/.local/state/untwin/journal.jsonl")),
            (false, Some("rel"), Some("/home/ann"), Some("/home/ann/.local/state/untwin/journal.jsonl")),
            (false, Some(""), None, None),
            (false, None, Some("rel"), None),
        ] {
            let path = state_path(root, state_home.map(OsString::from), home.map(OsString::from));
            assert_eq!(path.as_deref(), expected.map(Path::new), "{root} {state_home:?} {home:?}");
        }
    }

    #[test]
    fn names_of_files_set_aside_read_back() {
        for (path, second) in [
            ("/d/journal.jsonl", "/d/journal.2.jsonl"),
            ("/d/a.b.jsonl", "/d/a.b.2.jsonl"),
            ("/d/journal", "/d/journal.2"),
            ("journal.jsonl", "journal.2.jsonl"),
        ] {
            let (path, second) = (Path::new(path), Path::new(second));
            assert_eq!(set_aside(path, 2), second);
            assert_eq!(number(path, second.file_name().unwrap()), Some(2));
        }
    }

    #[test]
    fn other_files_have_no_number() {
        let path = Path::new("/d/journal.jsonl");
        for name in [
            "journal.jsonl",
            "journal.0.jsonl",
            "journal.01.jsonl",
            "journal.+1.jsonl",
            "journal.x.jsonl",
            "other.1.jsonl",
            "journal.1.json",
            "journal.jsonl.lock",
            "journal.99999999999.jsonl",
            "1",
            ".1",
        ] {
            assert_eq!(number(path, OsStr::new(name)), None, "{name}");
        }
    }
}
