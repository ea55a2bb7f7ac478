//! The users that the proxy knows by itself, as a file in PgBouncer's format names them. Checks nobody.

use super::auth_scram::{PREFIX, Secret};
use super::tls::{FileError, secret};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// One user's credentials.
pub(crate) struct User {
    /// By which the user is checked.
    pub secret: Arc<Secret>,
    /// If the file has it.
    pub password: Option<Zeroizing<String>>,
}

/// All users of a file.
pub(crate) struct Users {
    users: HashMap<String, User>,
    /// Makes up what names that nobody has are asked for.
    mock_key: [u8; 32],
}

impl Users {
    /// Reads a file of lines `"user" "secret"`, the secret being a password or `SCRAM-SHA-256$…` as in `pg_authid`.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let bytes = Zeroizing::new(secret(path)?);
        let text = std::str::from_utf8(&bytes).map_err(|_| FileError::new(path, "it is not UTF-8"))?;
        let mut mock_key = [0; 32];
        getrandom::fill(&mut mock_key).map_err(|error| FileError::new(path, error))?;
        let mut users = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let fault = |reason: &str| FileError::new(path, format!("line {}: {reason}", at + 1));
            let Some((name, user)) = user(line).map_err(fault)? else { continue };
            if users.insert(name, user).is_some() {
                return Err(fault("this user has a line above"));
            }
        }
        Ok(Self { users, mock_key })
    }

    /// The user of this name.
    pub fn find(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// What the user of this name is checked by; if there is none, something that looks alike and fails.
    pub fn secret(&self, name: &str) -> Arc<Secret> {
        let mock = || Arc::new(Secret::mock(&self.mock_key, name));
        self.find(name).map_or_else(mock, |user| Arc::clone(&user.secret))
    }
}

/// Reads a line; `None` if it is empty or a comment. Faults do not repeat what stands in it.
fn user(line: &str) -> Result<Option<(String, User)>, &'static str> {
    let line = line.trim_start();
    if line.is_empty() || line.starts_with([';', '#']) {
        return Ok(None);
    }
    let form = "write `\"user\" \"secret\"`, a quote within either as two";
    let (name, rest) = quoted(line).ok_or(form)?;
    let (text, _) = quoted(rest.trim_start()).ok_or(form)?;
    let text = Zeroizing::new(text);
    if name.is_empty() || text.is_empty() {
        return Err("the user or the secret is empty");
    }
    if is_md5(&text) {
        return Err("an md5 hash cannot check a client: write the password or its SCRAM secret");
    }
    let user = if text.starts_with(PREFIX) {
        let secret = Secret::parse(&text).ok_or("this is no SCRAM secret as pg_authid has them")?;
        User { secret: Arc::new(secret), password: None }
    } else {
        let made = Zeroizing::new(postgres_protocol::password::scram_sha_256(text.as_bytes()));
        let secret = Secret::parse(&made).ok_or("no SCRAM secret can be made of this password")?;
        User { secret: Arc::new(secret), password: Some(text) }
    };
    Ok(Some((name, user)))
}

fn is_md5(text: &str) -> bool {
    text.strip_prefix("md5")
        .is_some_and(|hash| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The text in quotes at the start, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut rest) = (String::new(), text.strip_prefix('"')?);
    loop {
        let (part, after) = rest.split_once('"')?;
        value.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                value.push('"');
                rest = more;
            }
            None => return Some((value, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn load(text: &str, mode: u32) -> Result<Users, FileError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        Users::load(file.path())
    }

    #[test]
    fn users_are_read_as_pgbouncer_reads_them() {
        let secret = postgres_protocol::password::scram_sha_256(b"x");
        let text = format!(
            "; a comment\n# another\n\n\"ann\" \"pass\"\"word\" more\n  \"b \"\"o\"\"b\"\t\"{secret}\"\n"
        );
        let users = load(&text, 0o640).unwrap();
        let password = |name: &str| {
            users.find(name).map(|user| user.password.as_ref().map(|password| password.to_string()))
        };
        assert_eq!(password("ann"), Some(Some("pass\"word".to_owned())));
        assert_eq!(password("b \"o\"b"), Some(None));
        assert_eq!(password("nobody"), None);
    }

    #[test]
    fn faults_are_told_with_their_line_and_without_secrets() {
        let md5 = format!("\"a\" \"md5{}\"", "0a".repeat(16));
        for (line, expected) in [
            ("ann hidden", "line 2: write `\"user\" \"secret\"`"),
            ("\"ann\" \"hidden", "line 2: write `\"user\" \"secret\"`"),
            ("\"ann\" \"\"", "line 2: the user or the secret is empty"),
            ("\"ann\" \"SCRAM-SHA-256$hidden\"", "line 2: this is no SCRAM secret"),
            (md5.as_str(), "line 2: an md5 hash cannot check a client"),
            ("\"first\" \"hidden\"", "line 2: this user has a line above"),
        ] {
            let error = load(&format!("\"first\" \"hidden\"\n{line}\n"), 0o600).err().unwrap().to_string();
            assert!(error.contains(expected) && !error.contains("hidden"), "{line}: {error}");
        }
        let error = load("", 0o644).err().unwrap().to_string();
        assert!(error.contains("mode 0644") && error.contains("chmod o= "), "{error}");
    }
}
