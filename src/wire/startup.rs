//! The packets before the first tagged message: startup, cancel, requests for encryption.

use super::reader::Reader;

/// The largest startup packet Postgres reads (`MAX_STARTUP_PACKET_LENGTH`).
pub const MAX_PACKET: usize = 10_000;

const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSSENC: u32 = 80_877_104;

const APPLICATION: &[u8] = b"application_name";

/// What a connection opens with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Startup {
    Session(Parameters),
    Cancel,
    Ssl,
    Gssenc,
}

/// The startup parameters that untwin looks at; the packet itself is forwarded as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    pub user: String,
    /// As Postgres has it: the user's name if the client names no database.
    pub database: String,
    pub application: String,
    /// A replication connection: what follows is not (only) SQL.
    pub replication: bool,
    /// `untwin.mode` from `options=-c untwin.mode=…`.
    pub mode: Option<String>,
}

/// Why a startup packet cannot be read. The client is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    #[error("invalid length of startup packet")]
    Length,
    #[error("invalid startup packet layout: expected terminator as last byte")]
    Layout,
    #[error("unsupported frontend protocol {major}.{minor}: untwin speaks 3.0 and later minors of 3")]
    Version { major: u16, minor: u16 },
    #[error("no PostgreSQL user name specified in startup packet")]
    NoUser,
}

impl StartupError {
    /// The SQLSTATE that Postgres gives for it.
    #[must_use]
    pub fn sqlstate(self) -> &'static str {
        match self {
            Self::Length | Self::Layout => "08P01",
            Self::Version { .. } => "0A000",
            Self::NoUser => "28000",
        }
    }
}

/// The whole packet's length from its first four bytes.
///
/// # Errors
/// [`StartupError::Length`] outside 8 to [`MAX_PACKET`] bytes.
pub fn packet_length(word: [u8; 4]) -> Result<usize, StartupError> {
    match usize::try_from(u32::from_be_bytes(word)) {
        Ok(length) if (8..=MAX_PACKET).contains(&length) => Ok(length),
        _ => Err(StartupError::Length),
    }
}

/// Reads a whole packet, length word included.
///
/// # Errors
/// What Postgres itself would refuse.
pub fn read(packet: &[u8]) -> Result<Startup, StartupError> {
    let mut reader = Reader::new(packet);
    reader.u32().ok_or(StartupError::Length)?;
    match reader.u32().ok_or(StartupError::Length)? {
        CANCEL => Ok(Startup::Cancel),
        SSL => Ok(Startup::Ssl),
        GSSENC => Ok(Startup::Gssenc),
        version if version >> 16 == 3 => parameters(reader).map(Startup::Session),
        version => Err(StartupError::Version { major: (version >> 16) as u16, minor: version as u16 }),
    }
}

fn parameters(mut reader: Reader) -> Result<Parameters, StartupError> {
    let mut found = Parameters::default();
    loop {
        let name = reader.cstr().ok_or(StartupError::Layout)?;
        if name.is_empty() {
            break;
        }
        let value = String::from_utf8_lossy(reader.cstr().ok_or(StartupError::Layout)?).into_owned();
        match name {
            b"user" => found.user = value,
            b"database" => found.database = value,
            APPLICATION => found.application = value,
            b"replication" => found.replication = !matches!(value.as_str(), "false" | "off" | "no" | "0"),
            b"options" => found.mode = mode_option(&value).or(found.mode),
            name if name.eq_ignore_ascii_case(MODE.as_bytes()) => found.mode = Some(value),
            _ => {}
        }
    }
    if !reader.is_empty() {
        return Err(StartupError::Layout);
    }
    if found.user.is_empty() {
        return Err(StartupError::NoUser);
    }
    if found.database.is_empty() {
        found.database.clone_from(&found.user);
    }
    Ok(found)
}

/// The setting by which a session makes itself more careful. Case is no part of a setting's name.
const MODE: &str = "untwin.mode";

/// `-c untwin.mode=x`, `-cuntwin.mode=x` or `--untwin.mode=x`, the last one winning.
fn mode_option(options: &str) -> Option<String> {
    options
        .split_whitespace()
        .filter_map(|word| {
            let word = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")).unwrap_or(word);
            let (name, value) = word.split_once('=')?;
            name.eq_ignore_ascii_case(MODE).then_some(value)
        })
        .next_back()
        .map(str::to_owned)
}

/// The same startup packet with this `application_name` in the place of the one it has, if it has any. A packet
/// that cannot be read, or would become too large, stays as it is.
#[must_use]
pub fn with_application(packet: &[u8], name: &str) -> Vec<u8> {
    replaced(packet, name).filter(|made| made.len() <= MAX_PACKET).unwrap_or_else(|| packet.to_vec())
}

fn replaced(packet: &[u8], application: &str) -> Option<Vec<u8>> {
    let mut reader = Reader::new(packet);
    reader.take(4)?;
    let mut made = [&[0; 4], reader.take(4)?].concat();
    loop {
        let name = reader.cstr()?;
        if name.is_empty() {
            break;
        }
        let value = reader.cstr()?;
        if name != APPLICATION {
            made.extend([name, b"\0", value, b"\0"].concat());
        }
    }
    made.extend([APPLICATION, b"\0", application.as_bytes(), b"\0\0"].concat());
    let length = u32::try_from(made.len()).ok()?;
    made.get_mut(..4)?.copy_from_slice(&length.to_be_bytes());
    Some(made)
}

/// An ErrorResponse of severity FATAL, ready to send.
#[must_use]
pub fn fatal(sqlstate: &str, message: &str, hint: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(64 + message.len() + hint.len());
    for (code, value) in [(b'S', "FATAL"), (b'V', "FATAL"), (b'C', sqlstate), (b'M', message), (b'H', hint)] {
        if !value.is_empty() {
            body.push(code);
            body.extend(value.bytes().filter(|&byte| byte != 0));
            body.push(0);
        }
    }
    body.push(0);
    let mut out = Vec::with_capacity(body.len() + 5);
    super::frame::write(&mut out, super::tag::backend::ERROR, &[&body]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(code: u32, rest: &[u8]) -> Vec<u8> {
        let mut packet = u32::try_from(8 + rest.len()).unwrap().to_be_bytes().to_vec();
        packet.extend_from_slice(&code.to_be_bytes());
        packet.extend_from_slice(rest);
        packet
    }

    #[test]
    fn the_database_is_the_user_unless_named() {
        let Ok(Startup::Session(found)) = read(&packet(3 << 16, b"user\0ann\0application_name\0etl\0\0"))
        else {
            panic!()
        };
        assert_eq!(
            (found.database.as_str(), found.application.as_str(), found.replication),
            ("ann", "etl", false)
        );
        let Ok(Startup::Session(found)) =
            read(&packet((3 << 16) + 2, b"user\0ann\0database\0db\0_pq_.x\0y\0\0"))
        else {
            panic!()
        };
        assert_eq!(found.database, "db");
    }

    #[test]
    fn replication_and_mode_are_seen() {
        for (rest, replication, mode) in [
            (&b"user\0a\0replication\0true\0\0"[..], true, None),
            (b"user\0a\0replication\0database\0\0", true, None),
            (b"user\0a\0replication\0off\0\0", false, None),
            (b"user\0a\0options\0-c untwin.mode=observe -c x=y\0\0", false, Some("observe")),
            (b"user\0a\0options\0--untwin.mode=strict\0\0", false, Some("strict")),
            (b"user\0a\0options\0-c UNTWIN.Mode=strict\0\0", false, Some("strict")),
            (b"user\0a\0options\0-cuntwin.mode=strict\0\0", false, Some("strict")),
        ] {
            let Ok(Startup::Session(found)) = read(&packet(3 << 16, rest)) else { panic!() };
            assert_eq!((found.replication, found.mode.as_deref()), (replication, mode));
        }
    }

    #[test]
    fn what_postgres_refuses_is_refused() {
        assert_eq!(read(&packet(2 << 16, b"")), Err(StartupError::Version { major: 2, minor: 0 }));
        assert_eq!(read(&packet(3 << 16, b"user\0a\0")), Err(StartupError::Layout));
        assert_eq!(read(&packet(3 << 16, b"user\0a\0\0x")), Err(StartupError::Layout));
        assert_eq!(read(&packet(3 << 16, b"database\0a\0\0")), Err(StartupError::NoUser));
        assert_eq!(packet_length([0, 0, 0, 7]), Err(StartupError::Length));
        assert_eq!(packet_length([0xff; 4]), Err(StartupError::Length));
    }

    #[test]
    fn the_name_of_the_application_is_replaced_and_the_rest_stays() {
        for (rest, expected) in [
            (&b"user\0a\0\0"[..], &b"user\0a\0application_name\0me\0\0"[..]),
            (
                b"application_name\0x\0user\0a\0options\0-c b=c\0\0",
                b"user\0a\0options\0-c b=c\0application_name\0me\0\0",
            ),
        ] {
            let version = (3 << 16) + 2;
            assert_eq!(with_application(&packet(version, rest), "me"), packet(version, expected));
        }
        let full = packet(3 << 16, &[b"user\0a\0x\0", &[b'y'; MAX_PACKET - 19][..], b"\0\0"].concat());
        assert_eq!((full.len(), with_application(&full, "me")), (MAX_PACKET, full.clone()));
        assert_eq!(with_application(b"no packet", "me"), b"no packet");
    }

    proptest::proptest! {
        #[test]
        fn no_packet_makes_it_panic(packet: Vec<u8>) {
            let _ = (read(&packet), with_application(&packet, "x"));
        }
    }
}
