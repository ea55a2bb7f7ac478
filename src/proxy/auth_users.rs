//! The users whom the proxy can check: those that a file in PgBouncer's format names, and those that can be looked
//! up. Checks nobody.

use super::Shared;
use super::auth_lookup::{AuthQuery, Found, Lookup, LookupError};
use super::auth_scram::{PREFIX, Secret};
use super::tls::{FileError, secret};
use super::tls_connect::Connector;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Where the proxy has the users whom it authenticates itself; one of the two at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// A file of users.
    pub file: Option<PathBuf>,
    /// How those whom it does not name are found in the database.
    pub query: Option<AuthQuery>,
}

/// One user's credentials.
#[derive(Clone)]
pub(crate) struct User {
    /// By which the user is checked.
    pub secret: Arc<Secret>,
    /// If it is known.
    pub password: Option<Zeroizing<String>>,
}

/// All users.
pub(crate) struct Users {
    file: HashMap<String, User>,
    lookup: Option<Lookup>,
    /// Makes up what names that nobody has are asked for.
    mock_key: [u8; 32],
}

impl Users {
    /// Reads the file. `mock_key`: a secret of this process.
    pub fn load(settings: &Authentication, mock_key: [u8; 32]) -> Result<Self, FileError> {
        let file = settings.file.as_deref().map(read).transpose()?.unwrap_or_default();
        let lookup = match (&settings.query, settings.file.as_deref()) {
            (None, _) => None,
            (Some(query), path) => Some(lookup(query, path, &file)?),
        };
        Ok(Self { file, lookup, mock_key })
    }

    /// What a client that calls itself `user` and wants to log in to `database` is checked by. If nobody has this
    /// name, something that looks alike and fails: a client cannot tell.
    ///
    /// # Errors
    /// [`LookupError`]: nobody knows whether there is such a user.
    pub(super) async fn identify(
        &self,
        user: &str,
        database: &str,
        shared: &Shared,
        connector: &Connector,
    ) -> Result<User, LookupError> {
        if let Some(known) = self.file.get(user) {
            return Ok(known.clone());
        }
        let why = match &self.lookup {
            None => "auth_file has no such user",
            Some(lookup) => match lookup.find(user, database, shared, connector).await? {
                Found::Secret(secret) => return Ok(User { secret: Arc::new(secret), password: None }),
                Found::Nobody => "neither auth_file nor auth_query has such a user",
                Found::Unfit(why) => why,
            },
        };
        tracing::warn!(user, why, "the login will fail");
        Ok(User { secret: Arc::new(Secret::mock(&self.mock_key, user)), password: None })
    }

    /// Ends sessions in which users were looked up, once they have had no work for a while.
    pub fn expire(&self) {
        if let Some(lookup) = &self.lookup {
            lookup.expire();
        }
    }
}

/// The lookup in the database; its user's password is in the file, unless the server wants none.
fn lookup(query: &AuthQuery, path: Option<&Path>, file: &HashMap<String, User>) -> Result<Lookup, FileError> {
    let password = match (file.get(&query.user), path) {
        (Some(User { password: None, .. }), Some(path)) => {
            return Err(FileError::new(
                path,
                "of auth_user it has a SCRAM secret, which cannot log in: write the password",
            ));
        }
        (user, _) => user.and_then(|user| user.password.clone()),
    };
    Ok(Lookup::new(query.clone(), password))
}

/// Reads a file of lines `"user" "secret"`, the secret being a password or `SCRAM-SHA-256$…` as in `pg_authid`.
fn read(path: &Path) -> Result<HashMap<String, User>, FileError> {
    let bytes = Zeroizing::new(secret(path)?);
    let text = std::str::from_utf8(&bytes).map_err(|_| FileError::new(path, "it is not UTF-8"))?;
    let mut users = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        let fault = |reason: &str| FileError::new(path, format!("line {}: {reason}", at + 1));
        let Some((name, user)) = user(line).map_err(fault)? else { continue };
        if users.insert(name, user).is_some() {
            return Err(fault("this user has a line above"));
        }
    }
    Ok(users)
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

    fn load(text: &str, mode: u32) -> Result<HashMap<String, User>, FileError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        read(file.path())
    }

    #[test]
    fn users_are_read_as_pgbouncer_reads_them() {
        let secret = postgres_protocol::password::scram_sha_256(b"x");
        let text = format!(
            "; a comment\n# another\n\n\"ann\" \"pass\"\"word\" more\n  \"b \"\"o\"\"b\"\t\"{secret}\"\n"
        );
        let users = load(&text, 0o640).unwrap();
        let password = |name: &str| {
            users.get(name).map(|user| user.password.as_ref().map(|password| password.to_string()))
        };
        assert_eq!(password("ann"), Some(Some("pass\"word".to_owned())));
        assert_eq!(password("b \"o\"b"), Some(None));
        assert_eq!(password("nobody"), None);
    }

    #[test]
    fn who_looks_up_others_needs_a_password_or_none() {
        let secret = postgres_protocol::password::scram_sha_256(b"x");
        let file = load(&format!("\"bare\" \"{secret}\"\n\"ann\" \"pass\"\n"), 0o600).unwrap();
        for (user, expected) in [("ann", None), ("nobody", None), ("bare", Some("write the password"))] {
            let query = AuthQuery { user: user.to_owned(), query: String::new(), database: None };
            let told = lookup(&query, Some(Path::new("/users")), &file).err().map(|error| error.to_string());
            assert_eq!(told.is_some(), expected.is_some(), "{user}");
            assert!(told.unwrap_or_default().contains(expected.unwrap_or_default()));
        }
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
