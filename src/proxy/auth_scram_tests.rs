//! SCRAM against another implementation of it, and against clients that lie.

use super::*;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

const NONCE: &str = "a-nonce-of-the-proxy";

fn secret(password: &str) -> Arc<Secret> {
    let text = postgres_protocol::password::scram_sha_256(password.as_bytes());
    Arc::new(Secret::parse(&text).unwrap())
}

/// Runs an exchange with a client; gives the outcome at the server and at the client.
fn exchange(
    secret: &Arc<Secret>,
    password: &str,
    client: ChannelBinding,
    plus: bool,
    channel: Option<&[u8]>,
) -> Result<(Proven, bool), ScramError> {
    let mut client = ScramSha256::new(password.as_bytes(), client);
    let exchange = Exchange::begin(client.message(), plus, channel, NONCE, Arc::clone(secret))?;
    client.update(exchange.server_first.as_bytes()).unwrap();
    let proven = exchange.finish(client.message())?;
    let satisfied = client.finish(proven.server_final.as_bytes()).is_ok();
    Ok((proven, satisfied))
}

#[test]
fn the_right_password_is_proven_by_both_sides() {
    for password in ["secret", "pässwörd", "\u{2168}", "I\u{ad}X", "a,b=c"] {
        let secret = secret(password);
        for (client, plus, channel) in [
            (ChannelBinding::unsupported(), false, None),
            (ChannelBinding::unsupported(), false, Some(&b"digest"[..])),
            (ChannelBinding::unrequested(), false, None),
            (ChannelBinding::tls_server_end_point(b"digest".to_vec()), true, Some(b"digest")),
        ] {
            assert!(
                exchange(&secret, password, client, plus, channel).is_ok_and(|(_, satisfied)| satisfied),
                "{password}"
            );
        }
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let (right, mock) = (secret("secret"), Arc::new(Secret::mock(&[7; 32], "nobody")));
    let bound = |digest: &[u8]| ChannelBinding::tls_server_end_point(digest.to_vec());
    let (none, plain) = (ChannelBinding::unrequested, ChannelBinding::unsupported);
    for (secret, password, client, plus, channel, expected) in [
        (&right, "Secret", plain(), false, None, ScramError::Proof),
        (&mock, "secret", plain(), false, None, ScramError::Proof),
        (&right, "secret", none(), false, Some(&b"digest"[..]), ScramError::Negotiation),
        (&right, "secret", bound(b"another"), true, Some(b"digest"), ScramError::Binding),
        (&right, "secret", bound(b"digest"), false, Some(b"digest"), ScramError::Malformed),
        (&right, "secret", bound(b"digest"), true, None, ScramError::Malformed),
        (&right, "secret", plain(), true, Some(b"digest"), ScramError::Malformed),
    ] {
        assert_eq!(exchange(secret, password, client, plus, channel).err(), Some(expected));
    }
}

#[test]
fn first_messages_that_make_no_sense_are_refused() {
    for (message, expected) in [
        ("n,,n=,r=abc", None),
        ("n,,n=user,r=abc,x=1", None),
        ("n,a=other,n=,r=abc", Some(ScramError::Authorization)),
        ("n,b=other,n=,r=abc", Some(ScramError::Malformed)),
        ("n,,m=1,n=,r=abc", Some(ScramError::Extension)),
        ("n,,r=abc", Some(ScramError::Malformed)),
        ("n,,n=,r=", Some(ScramError::Malformed)),
        ("n,,n=,r=a b", Some(ScramError::Malformed)),
        ("n,,n=", Some(ScramError::Malformed)),
        ("q,,n=,r=abc", Some(ScramError::Malformed)),
        ("p=tls-unique,,n=,r=abc", Some(ScramError::Malformed)),
        ("", Some(ScramError::Malformed)),
    ] {
        let begun = Exchange::begin(message.as_bytes(), false, None, NONCE, secret("x"));
        assert_eq!(begun.err(), expected, "{message}");
    }
}

#[test]
fn last_messages_that_make_no_sense_are_refused() {
    let proof = BASE64.encode([0; 32]);
    for (message, expected) in [
        (format!("c=biws,r=abc{NONCE},p={proof}"), ScramError::Proof),
        (format!("c=biws,r=abc{NONCE},x=1,p={proof}"), ScramError::Proof),
        (format!("c=eSws,r=abc{NONCE},p={proof}"), ScramError::Binding),
        (format!("c=biws,r=abc,p={proof}"), ScramError::Malformed),
        (format!("c=biws,r=abc{NONCE}"), ScramError::Malformed),
        (format!("c=biws,r=abc{NONCE},p=AAAA"), ScramError::Malformed),
        (format!("r=abc{NONCE},c=biws,p={proof}"), ScramError::Malformed),
        (String::new(), ScramError::Malformed),
    ] {
        let begun = Exchange::begin(b"n,,n=,r=abc", false, None, NONCE, secret("x")).unwrap();
        assert_eq!(begun.finish(message.as_bytes()).err(), Some(expected), "{message}");
    }
}

#[test]
fn a_recovered_key_logs_in_where_the_secret_is_the_same() {
    let shared = secret("secret");
    let key =
        || exchange(&shared, "secret", ChannelBinding::unsupported(), false, None).unwrap().0.client_key;
    for (channel, is_encrypted, plus) in
        [(None, false, false), (None, true, false), (Some(b"digest".to_vec()), true, true)]
    {
        let mut client = Keyed::new(key(), Arc::clone(&shared), channel.clone(), is_encrypted, "mine");
        let server =
            Exchange::begin(client.first().as_bytes(), plus, channel.as_deref(), NONCE, Arc::clone(&shared))
                .unwrap();
        let answer = client.proof(server.server_first.as_bytes()).unwrap();
        let proven = server.finish(answer.as_bytes()).unwrap();
        assert!(client.is_answered(proven.server_final.as_bytes()) && !client.is_answered(b"v=AAAA"));
    }
    let mut client = Keyed::new(key(), Arc::clone(&shared), None, false, "mine");
    let other = Exchange::begin(client.first().as_bytes(), false, None, NONCE, secret("secret")).unwrap();
    assert_eq!(client.proof(other.server_first.as_bytes()), None, "another salt is another secret");
    for malformed in ["", "r=mine", "r=mine,s=,i=1", "r=yours,s=AAAA,i=4096"] {
        assert_eq!(client.proof(malformed.as_bytes()), None, "{malformed}");
    }
}

#[test]
fn secrets_are_read_as_postgres_writes_them() {
    let text = postgres_protocol::password::scram_sha_256(b"x");
    assert!(Secret::parse(&text).is_some());
    for text in [
        "SCRAM-SHA-256$4096:$AAAA:AAAA",
        "SCRAM-SHA-256$0:AAAA$AAAA:AAAA",
        "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA",
        "SCRAM-SHA-256$4096:AAAA",
        "md5abc",
        "",
    ] {
        assert!(Secret::parse(text).is_none(), "{text}");
    }
    assert_eq!(format!("{:?}", Secret::parse(&text)), "Some(Secret)");
}

#[test]
fn nobody_is_always_asked_for_the_same() {
    let first = |user: &str| {
        let mock = Arc::new(Secret::mock(&[7; 32], user));
        Exchange::begin(b"n,,n=,r=abc", false, None, "", mock).unwrap().server_first
    };
    assert_eq!(first("ann"), first("ann"));
    assert_ne!(first("ann"), first("bob"));
    assert_eq!(first("ann").len(), "r=abc,s=,i=4096".len() + 24, "16 bytes of salt, as everybody has");
}

proptest::proptest! {
    #[test]
    fn no_message_makes_it_panic(first: Vec<u8>, last: Vec<u8>, text in "[cnrpyv=,a-z]{0,40}") {
        for first in [&first[..], text.as_bytes()] {
            let _ = Exchange::begin(first, false, None, NONCE, Arc::new(Secret::mock(&[7; 32], "x")));
        }
        for last in [&last[..], text.as_bytes()] {
            let begun = Exchange::begin(b"n,,n=,r=abc", false, None, NONCE, Arc::new(Secret::mock(&[7; 32], "x"))).unwrap();
            proptest::prop_assert!(begun.finish(last).is_err());
        }
    }
}
