//! Passwords that the URL does not name: from PGPASSWORD, or the file that libpq reads. Logs in nowhere.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::upstream::Upstream;
use crate::proxy::{Address, Login};

/// The login of the URL, with the passwords that libpq would use for it. `variable`: the environment.
///
/// A file that others can read is not used; the text says so.
pub(super) fn login(
    upstream: &Upstream,
    variable: impl Fn(&str) -> Option<OsString>,
) -> (Login, Option<String>) {
    let mut login = upstream.login();
    if login.config.get_password().is_some() {
        return (login, None);
    }
    if let Some(password) = variable("PGPASSWORD").filter(|password| !password.is_empty()) {
        login.config.password(password.as_encoded_bytes());
        return (login, None);
    }
    let Some(path) = path(&variable) else { return (login, None) };
    match contents(&path) {
        Ok(text) => {
            let user = login.config.get_user().map_or_else(|| name(&variable("USER")), str::to_owned);
            let database = login.config.get_dbname().map_or_else(|| user.clone(), str::to_owned);
            let lines: Vec<_> = text.lines().filter_map(Line::read).collect();
            let found = |address: &Address| {
                let line = lines.iter().find(|line| line.fits(upstream, address, &database, &user))?;
                Some((address.clone(), line.password.clone()))
            };
            login.passwords = upstream.addresses.iter().filter_map(found).collect();
            (login, None)
        }
        Err(why) => (login, why),
    }
}

fn name(value: &Option<OsString>) -> String {
    value.as_ref().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

fn path(variable: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = variable("PGPASSFILE").filter(|path| !path.is_empty());
    named.map(PathBuf::from).or_else(|| Some(Path::new(&variable("HOME")?).join(".pgpass")))
}

/// `Err(None)`: there is no such file.
fn contents(path: &Path) -> Result<String, Option<String>> {
    let metadata = std::fs::metadata(path).map_err(|_| None)?;
    let mode = metadata.permissions().mode();
    if !metadata.is_file() || mode & 0o077 != 0 {
        return Err(Some(format!(
            "{} is not used, since others have access to it: run `chmod 600 {0}`",
            path.display()
        )));
    }
    std::fs::read_to_string(path).map_err(|error| Some(format!("cannot read {}: {error}", path.display())))
}

/// A line `host:port:database:user:password` (the manual's chapter 34.16).
struct Line {
    host: String,
    port: String,
    database: String,
    user: String,
    password: String,
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let mut fields = [const { String::new() }; 5];
        let mut at = 0;
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            match character {
                // The password is all the rest.
                ':' if at < 4 => at += 1,
                '\\' => fields.get_mut(at)?.extend(characters.next()),
                character => fields.get_mut(at)?.push(character),
            }
        }
        let [host, port, database, user, password] = fields;
        (at == 4).then_some(Self { host, port, database, user, password })
    }

    fn fits(&self, upstream: &Upstream, address: &Address, database: &str, user: &str) -> bool {
        let same = |field: &str, value: &str| field == "*" || field == value;
        let (host, port) = match address {
            Address::Tcp { host, port } => {
                let named = upstream.tls.names.iter().find(|(of, _)| of == address);
                (same(&self.host, named.map_or(host, |(_, name)| name)), port)
            }
            // libpq calls the socket in its own directory so, which is one of these.
            Address::Unix { directory, port } => {
                let usual = ["/tmp", "/var/run/postgresql"].iter().any(|usual| directory == Path::new(usual));
                (same(&self.host, &directory.to_string_lossy()) || usual && self.host == "localhost", port)
            }
        };
        host && same(&self.port, &port.to_string())
            && same(&self.database, database)
            && same(&self.user, user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which passwords are used for a URL, with a file of these lines and these variables.
    fn passwords(url: &str, lines: &str, mode: u32, variables: &[(&str, &str)]) -> (String, Option<String>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let variable = |name: &str| match name {
            "PGPASSFILE" => Some(file.path().as_os_str().to_owned()),
            _ => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()),
        };
        let (login, warning) = login(&url.parse().unwrap(), variable);
        let whole =
            login.config.get_password().map(|password| String::from_utf8_lossy(password).into_owned());
        let each = login.passwords.into_iter().map(|(address, password)| format!("{address}={password}"));
        (whole.into_iter().chain(each).collect::<Vec<_>>().join(" "), warning)
    }

    #[test]
    fn passwords_are_found_where_libpq_finds_them() {
        let lines = "# h:1:d:u:comment\nshort:line\nh:1:d:u:one:\\:\\\\\n*:2:*:*:two\nlocalhost:*:d:u:local\n/run/x:5:d:u:socket\nnamed:*:*:*:name\n";
        for (url, variables, expected) in [
            ("postgres://u:own@h:1/d", &[("PGPASSWORD", "variable")][..], "own"),
            ("postgres://u@h:1/d", &[("PGPASSWORD", "variable")], "variable"),
            ("postgres://u@h:1/d", &[("PGPASSWORD", "")], "h:1=one::\\"),
            ("postgres://u@h:1,i:2,i:3/d", &[], "h:1=one::\\ i:2=two"),
            ("postgres://u@h:1/e", &[], ""),
            ("postgres://v@h:1/d", &[], ""),
            ("postgres://h:1/d", &[("USER", "u")], "h:1=one::\\"),
            ("postgres:///d?host=/var/run/postgresql&user=u", &[], "/var/run/postgresql:5432=local"),
            ("postgres:///d?host=/run/x&port=5&user=u", &[], "/run/x:5=socket"),
            ("host=named hostaddr=127.0.0.1 user=u", &[], "127.0.0.1:5432=name"),
        ] {
            assert_eq!(passwords(url, lines, 0o600, variables), (expected.to_owned(), None), "{url}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_not_used() {
        let (found, warning) = passwords("postgres://u@h:1/d", "*:*:*:*:secret", 0o640, &[]);
        assert_eq!(found, "");
        assert!(warning.is_some_and(|warning| warning.contains("run `chmod 600 ")));
        let nowhere = |name: &str| (name == "PGPASSFILE").then(|| "/nowhere".into());
        assert_eq!(login(&"postgres://u@h".parse().unwrap(), nowhere).1, None);
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line: String, words in "[a:\\\\é*#]{0,20}") {
            let _ = (Line::read(&line), Line::read(&words));
        }
    }
}
