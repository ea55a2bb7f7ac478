//! The parameters of the database's URL that concern TLS, with libpq's names and meaning. tokio_postgres knows
//! few of them, so they are taken out before it reads the rest. Pure.

use super::value::BadValue;
use crate::proxy::tls::{Root, SslMode, UpstreamTls};

/// Those of TLS, and one that tokio_postgres knows only in part.
const NAMES: &[&str] = &[
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslcrl",
    "sslcrldir",
    "sslsni",
    "sslnegotiation",
    super::upstream::TARGET,
];

/// Parameters of TLS by name, in order.
type Parameters = Vec<(String, String)>;

/// Takes the parameters of TLS out of a URL or a connection string.
///
/// # Errors
/// A value is not UTF-8.
pub(super) fn split(text: &str) -> Result<(String, Parameters), BadValue> {
    if text.contains("://") { split_url(text) } else { Ok(split_words(text)) }
}

fn split_url(url: &str) -> Result<(String, Parameters), BadValue> {
    // As tokio_postgres: credentials end at the first `@`, and may hold a `?`.
    let credentials = url.find('@').unwrap_or(0);
    let Some(question) = url.get(credentials..).and_then(|rest| rest.find('?')) else {
        return Ok((url.to_owned(), Vec::new()));
    };
    let (place, query) = url.split_at(credentials + question);
    let (mut rest, mut found) = (Vec::new(), Vec::new());
    for parameter in query.trim_start_matches('?').split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some((name, value)) if NAMES.contains(&name) => {
                found.push((name.to_owned(), decoded(name, value)?))
            }
            _ => rest.push(parameter),
        }
    }
    let question = if rest.is_empty() { "" } else { "?" };
    Ok((format!("{place}{question}{}", rest.join("&")), found))
}

/// Percent-decodes a value (RFC 3986, 2.1).
fn decoded(name: &str, value: &str) -> Result<String, BadValue> {
    let bad = || BadValue(format!("{name} is not percent-encoded UTF-8"));
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(bad()) };
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// `name=value` separated by spaces; a value may stand in single quotes, a backslash escapes a character.
fn split_words(text: &str) -> (String, Parameters) {
    let (mut rest, mut found) = (String::new(), Vec::new());
    let mut left = text;
    while let Some((name, after)) = left.split_once('=') {
        let (value, end) = word_value(after);
        let word = left.get(..left.len() - after.len() + end).unwrap_or(left);
        if NAMES.contains(&name.trim()) {
            found.push((name.trim().to_owned(), value));
        } else {
            rest.push_str(word);
            rest.push(' ');
        }
        left = after.get(end..).unwrap_or_default();
    }
    rest.push_str(left);
    (rest, found)
}

/// A value at the start of `text`, and where it ends.
fn word_value(text: &str) -> (String, usize) {
    let mut value = String::new();
    let start = text.len() - text.trim_start().len();
    let mut characters = text.char_indices().skip_while(|&(at, _)| at < start).peekable();
    let quoted = characters.next_if(|&(_, c)| c == '\'').is_some();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return (value, at + 1),
            c if !quoted && c.is_whitespace() => return (value, at),
            c => value.push(c),
        }
    }
    (value, text.len())
}

/// What the parameters mean together.
///
/// # Errors
/// Values that libpq refuses too, and `verify-ca` or `verify-full` without `sslrootcert`, since the proxy looks
/// into nobody's home directory for one.
pub(super) fn read(parameters: &[(String, String)]) -> Result<UpstreamTls, BadValue> {
    let (mut tls, mut mode) = (UpstreamTls::default(), None);
    for (name, value) in parameters {
        let path = (!value.is_empty()).then(|| value.into());
        match name.as_str() {
            "sslmode" => mode = Some(ssl_mode(value)?),
            "sslrootcert" if value == "system" => tls.root = Some(Root::System),
            "sslrootcert" => tls.root = path.map(Root::File),
            "sslcert" => tls.cert = path,
            "sslkey" => tls.key = path,
            "sslcrl" => tls.crl = path,
            "sslcrldir" => tls.crl_directory = path,
            "sslpassword" => {
                let reason =
                    "sslpassword is not known here: write the key of sslkey unencrypted, with `openssl pkey`";
                return Err(BadValue(reason.to_owned()));
            }
            "sslsni" => tls.sni = choice(name, value, ["0", "1"])?,
            "sslnegotiation" => tls.direct = choice(name, value, ["postgres", "direct"])?,
            _ => {}
        }
    }
    tls.mode =
        mode.unwrap_or(if tls.root == Some(Root::System) { SslMode::VerifyFull } else { SslMode::default() });
    contradictions(&tls).map_or(Ok(tls), |text| Err(BadValue(text.to_owned())))
}

fn ssl_mode(value: &str) -> Result<SslMode, BadValue> {
    let known = SslMode::ALL.into_iter().find(|(_, name)| *name == value);
    known.map(|(mode, _)| mode).ok_or_else(|| {
        BadValue(format!("sslmode is one of {}", SslMode::ALL.map(|(_, name)| name).join(", ")))
    })
}

/// Whether it is the second of two values.
fn choice(name: &str, value: &str, values: [&str; 2]) -> Result<bool, BadValue> {
    let place = values.iter().position(|known| *known == value);
    place.map(|place| place == 1).ok_or_else(|| BadValue(format!("{name} is {} or {}", values[0], values[1])))
}

fn contradictions(tls: &UpstreamTls) -> Option<&'static str> {
    let verifies = tls.mode >= SslMode::VerifyCa;
    [
        (
            verifies && tls.root.is_none(),
            "sslmode=verify-ca and verify-full need sslrootcert: a file, or `system`",
        ),
        (
            tls.root == Some(Root::System) && tls.mode != SslMode::VerifyFull,
            "sslrootcert=system needs sslmode=verify-full",
        ),
        (
            tls.direct && tls.mode < SslMode::Require,
            "sslnegotiation=direct needs sslmode=require, verify-ca or verify-full",
        ),
        (tls.cert.is_some() != tls.key.is_some(), "sslcert and sslkey need each other"),
        (
            (tls.crl.is_some() || tls.crl_directory.is_some())
                && (tls.root.is_none() || tls.mode < SslMode::Require),
            "sslcrl and sslcrldir need sslrootcert and sslmode=require, verify-ca or verify-full: otherwise no certificate is verified",
        ),
    ]
    .into_iter()
    .find_map(|(wrong, text)| wrong.then_some(text))
}

/// The parameters that give these settings, in a URL's spelling.
pub(super) fn shown(tls: &UpstreamTls) -> Vec<String> {
    let path = |path: &std::path::Path| crate::proxy::escaped(path);
    let mut shown = Vec::new();
    if tls.mode != SslMode::default() {
        shown.push(format!("sslmode={}", tls.mode.name()));
    }
    match &tls.root {
        None => {}
        Some(Root::System) => shown.push("sslrootcert=system".to_owned()),
        Some(Root::File(file)) => shown.push(format!("sslrootcert={}", path(file))),
    }
    shown.extend(tls.cert.as_deref().map(|cert| format!("sslcert={}", path(cert))));
    shown.extend(tls.key.as_deref().map(|key| format!("sslkey={}", path(key))));
    shown.extend(tls.crl.as_deref().map(|crl| format!("sslcrl={}", path(crl))));
    shown.extend(tls.crl_directory.as_deref().map(|directory| format!("sslcrldir={}", path(directory))));
    if !tls.sni {
        shown.push("sslsni=0".to_owned());
    }
    if tls.direct {
        shown.push("sslnegotiation=direct".to_owned());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_tls_are_taken_out_and_the_rest_stays() {
        for (text, rest, found) in [
            ("postgres://h", "postgres://h", &[][..]),
            (
                "postgres://u:p?w@h/d?a=b&sslmode=require&c=d",
                "postgres://u:p?w@h/d?a=b&c=d",
                &[("sslmode", "require")],
            ),
            ("postgres://h?sslkey=%2Fa%20b", "postgres://h", &[("sslkey", "/a b")]),
            ("host=h sslkey='/a \\'b' port=1", "host=h  port=1 ", &[("sslkey", "/a 'b")]),
            (
                "sslmode = require host=h password='x sslmode=disable'",
                " host=h  password='x sslmode=disable' ",
                &[("sslmode", "require")],
            ),
        ] {
            let expected: Parameters =
                found.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(split(text), Ok((rest.to_owned(), expected)), "{text}");
        }
        assert!(split("postgres://h?sslkey=%2").is_err());
    }

    fn reading(text: &str) -> Result<UpstreamTls, String> {
        let (_, parameters) = split(text).map_err(|error| error.to_string())?;
        read(&parameters).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_are_shown_so_that_they_read_back() {
        for text in [
            "",
            "sslmode=disable",
            "sslmode=allow",
            "sslmode=verify-ca sslrootcert=/r.pem sslcert='/c d.pem' sslkey=/k.pem sslsni=0 sslnegotiation=direct",
            "sslrootcert=system",
            "sslmode=verify-full sslrootcert=/r.pem sslcrl=/c.pem sslcrldir='/c d'",
        ] {
            let tls = reading(text).unwrap();
            assert_eq!(reading(&format!("postgres://h/?{}", shown(&tls).join("&"))), Ok(tls), "{text}");
        }
        assert_eq!(reading("sslrootcert=system").unwrap().mode, SslMode::VerifyFull);
    }

    #[test]
    fn contradictions_are_refused() {
        for (text, expected) in [
            ("sslmode=sometimes", "sslmode is one of disable, allow, prefer"),
            ("sslsni=yes", "sslsni is 0 or 1"),
            ("sslnegotiation=fast", "sslnegotiation is postgres or direct"),
            ("sslmode=verify-full", "sslmode=verify-ca and verify-full need sslrootcert"),
            ("sslmode=require sslrootcert=system", "sslrootcert=system needs"),
            ("sslnegotiation=direct", "sslnegotiation=direct needs sslmode=require"),
            ("sslcert=/c.pem", "sslcert and sslkey need each other"),
            ("sslmode=require sslcrl=/c.pem", "sslcrl and sslcrldir need sslrootcert"),
            ("sslmode=prefer sslrootcert=/r.pem sslcrldir=/c", "sslcrl and sslcrldir need sslrootcert"),
            ("sslpassword=hidden", "sslpassword is not known here"),
        ] {
            let error = reading(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, words in "[ a-z='\\\\é?&%@:/]{0,40}") {
            for text in [text, words] {
                let _ = split(&text).map(|(_, parameters)| read(&parameters));
            }
        }
    }
}
