//! Users whom the proxy looks up in the database: who gets in, what others learn, and whose fault it is when nobody does.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::authentication::{assert_row, hops, psql, users_file};
use crate::readme::fences;
use crate::support::cluster::free_port;
use crate::support::{Proxy, Wire, eventually, message};
use crate::tls_servers::{Server, server};

/// Arguments for a lookup by `looker`, with more of them.
fn arguments<'a>(file: &'a str, query: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["--auth", "terminate", "--auth-user", "looker", "--auth-file", file, "--auth-query", query];
    [&fixed[..], more].concat()
}

const LOOK_UP: &str = "SELECT * FROM look_up($1)";

fn looker(server: &Server) -> String {
    users_file(server, "\"looker\" \"looks\"\n")
}

fn proxy(server: &Server, query: &str, more: &[&str]) -> Proxy {
    Proxy::of_url(&server.url(""), "postgres", &arguments(&looker(server), query, more))
}

/// The superuser looks up with the query that untwin has by itself.
fn proxy_of_superuser(server: &Server) -> Proxy {
    Proxy::of_url(&server.url(""), "postgres", &["--auth", "terminate", "--auth-user", "postgres"])
}

fn run(server: &Server, sql: &str) {
    Wire::connect(server.cluster.address(), "postgres").run(sql);
}

#[test]
fn who_is_looked_up_logs_in_through_every_pair_of_hops() {
    let server = server();
    let file = looker(&server);
    for hops in hops(&server, &arguments(&file, LOOK_UP, &["--auth-dbname", "postgres"])) {
        let unencrypted = Some("channel binding required, but SSL not in use");
        let required = if hops.sslmode == "disable" { unencrypted } else { None };
        // The server asks the first for SCRAM, and lets the second in.
        assert_row(&hops, "scram", [None, None, required]);
        run(&server, "ALTER ROLE trusted PASSWORD 'secret'");
        assert_row(&hops, "trusted", [None, None, required]);
    }
}

#[test]
fn new_users_and_new_passwords_hold_at_once() {
    let server = server();
    for proxy in [proxy(&server, LOOK_UP, &[]), proxy_of_superuser(&server)] {
        let logs_in = |password: &str| psql(&proxy, "comer", &format!("password={password}")).is_ok();
        assert!(!logs_in("one"));
        run(&server, "CREATE ROLE comer LOGIN PASSWORD 'one' IN ROLE looked_up");
        assert!(logs_in("one") && !logs_in("two"));
        run(&server, "ALTER ROLE comer PASSWORD 'two'");
        assert!(logs_in("two") && !logs_in("one"));
        run(&server, "ALTER ROLE comer VALID UNTIL '2020-01-01'");
        assert!(!logs_in("two"), "the password has expired");
        run(&server, "ALTER ROLE comer VALID UNTIL 'infinity'");
        assert!(logs_in("two"));
        run(&server, "DROP ROLE comer");
        assert!(!logs_in("two"));
    }
}

#[test]
fn the_function_of_the_readme_lends_this_right_and_no_more() {
    let server = server();
    let sql = fences("sql").into_iter().find(|sql| sql.contains("SECURITY DEFINER"));
    run(&server, &sql.expect("the README has the function"));
    run(
        &server,
        "GRANT looked_up TO untwin_auth; CREATE ROLE chief SUPERUSER LOGIN PASSWORD 'secret' IN ROLE looked_up",
    );
    let file = fences("text").into_iter().find(|text| text.contains("\"untwin_auth\""));
    let lines: Vec<String> = file.iter().flat_map(|text| text.lines().map(str::to_owned)).collect();
    let file =
        users_file(&server, lines.iter().find(|line| line.starts_with("\"untwin_auth\"")).expect("a line"));
    let toml = fences("toml").into_iter().find(|toml| toml.contains("auth_query")).expect("its settings");
    let set = |name: &str| {
        let value = toml.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")));
        value.and_then(|value| value.strip_suffix('"')).expect("a setting").to_owned()
    };
    let (user, query, database) = (set("auth_user"), set("auth_query"), set("auth_dbname"));
    let asks = [
        "--auth",
        "terminate",
        "--auth-user",
        &user,
        "--auth-query",
        &query,
        "--auth-dbname",
        &database,
        "--auth-file",
        &file,
    ];
    let proxy = Proxy::of_url(&server.url(""), "postgres", &asks);
    assert_eq!(psql(&proxy, "scram", "password=secret").as_deref(), Ok("scram"), "{}", proxy.stderr());
    for user in ["chief", "looked_up"] {
        assert!(psql(&proxy, user, "password=secret").is_err(), "{user}");
    }
    run(&server, "DROP ROLE chief; DROP SCHEMA untwin_auth CASCADE; DROP ROLE untwin_auth");
}

#[test]
fn the_file_comes_first() {
    let server = server();
    let file = users_file(&server, "\"looker\" \"looks\"\n\"scram\" \"other\"\n");
    let proxy = Proxy::of_url(&server.url(""), "postgres", &arguments(&file, LOOK_UP, &[]));
    assert!(psql(&proxy, "scram", "password=secret").is_err());
    assert_eq!(psql(&proxy, "looker", "password=looks").as_deref(), Ok("looker"));
}

/// What a client that names itself so is asked for by SCRAM: salt and number of iterations.
fn asked(proxy: &Proxy, user: &str) -> String {
    let mut client = Wire::dial(proxy.address).expect("the proxy listens");
    client.send(&message::startup(&[("user", user), ("database", "postgres")]));
    assert_eq!(client.reply().expect("a request").body, b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let first = b"n,,n=,r=rOprNGfwEbeRWgbNEkqO";
    let length = u32::try_from(first.len()).expect("it is short").to_be_bytes();
    client.send(&message::frame(b'p', &[b"SCRAM-SHA-256\0", &length[..], first].concat()));
    let answer = String::from_utf8(client.reply().expect("an answer").body[4..].to_vec()).expect("text");
    answer.split_once(',').expect("the nonce comes first").1.to_owned()
}

#[test]
fn who_is_not_there_is_asked_as_if_he_were() {
    let server = server();
    run(
        &server,
        "CREATE ROLE expired LOGIN PASSWORD 'secret' VALID UNTIL '2020-01-01' IN ROLE looked_up; CREATE ROLE bare LOGIN",
    );
    let proxy = proxy_of_superuser(&server);
    let reasons = [
        ("scram", ""),
        ("nobody", "neither auth_file nor auth_query has such a user"),
        ("md5", "set password_encryption = 'scram-sha-256' in the database and set the password anew"),
        ("bare", "the user has no password, or it has expired"),
        ("expired", "the user has no password, or it has expired"),
        (&"x".repeat(70), "neither auth_file nor auth_query has such a user"),
    ];
    let shape = |asked: &str| {
        let (salt, iterations) = asked.split_once(',').expect("two parts");
        let salt = BASE64.decode(salt.strip_prefix("s=").expect("a salt")).expect("base64");
        (salt.len(), iterations.to_owned())
    };
    let mut before = Vec::new();
    for (user, reason) in reasons {
        let asked = asked(&proxy, user);
        assert_eq!(shape(&asked), (16, "i=4096".to_owned()), "{user}");
        before.push(asked);
        let refused = psql(&proxy, user, "password=wrong").expect_err("the password is wrong");
        let expected = format!("FATAL:  password authentication failed for user \"{user}\"");
        assert!(refused.ends_with(&expected), "{refused}");
        assert!(eventually(|| proxy.stderr().contains(reason)), "{user}: {}", proxy.stderr());
    }
    proxy.signal("HUP");
    assert!(eventually(|| proxy.stderr().contains("were read again")));
    let after = reasons.map(|(user, _)| asked(&proxy, user));
    assert_eq!(before, after, "salts stay as they are");
    assert!(!proxy.stderr().contains("SCRAM-SHA-256$"));
    run(&server, "DROP ROLE expired; DROP ROLE bare");
}

#[test]
fn a_lookup_that_fails_says_whose_fault_it_is() {
    let server = server();
    let file = looker(&server);
    let wrong = users_file(&server, "\"looker\" \"wrong\"\n");
    let secretive =
        "untwin: secrets of users cannot be looked up in the database\nHINT:  untwin's log says why.";
    let cases = [
        (
            "the default needs a superuser",
            arguments(&file, "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1", &[]),
            secretive,
            "permission denied for table pg_authid (auth_user may not do this: have auth_query call",
        ),
        (
            "its password is wrong",
            arguments(&wrong, LOOK_UP, &[]),
            secretive,
            "password authentication failed for user \"looker\"",
        ),
        ("no query", arguments(&file, "SELEKT $1", &[]), secretive, "syntax error at or near \"SELEKT\""),
        ("no parameter", arguments(&file, "SELECT 'a', 'b'", &[]), secretive, "auth_query cannot be asked: "),
        (
            "one column",
            arguments(&file, "SELECT usename FROM pg_user WHERE usename = $1", &[]),
            secretive,
            "auth_query has to give two columns of text",
        ),
        (
            "all users",
            arguments(&file, "SELECT usename, passwd FROM pg_user WHERE $1::text IS NOT NULL", &[]),
            secretive,
            "auth_query gives more than one row",
        ),
        (
            "another user",
            arguments(
                &file,
                "SELECT usename, passwd FROM pg_user WHERE usename = 'md5' AND $1::text <> ''",
                &[],
            ),
            secretive,
            "auth_query gives a row of another user",
        ),
        (
            "no database to ask in",
            arguments(&file, LOOK_UP, &["--auth-dbname", "nowhere"]),
            "FATAL:  database \"nowhere\" does not exist",
            "database \"nowhere\" does not exist",
        ),
    ];
    for (name, arguments, told, logged) in cases {
        let proxy = Proxy::of_url(&server.url(""), "postgres", &arguments);
        let refused = psql(&proxy, "scram", "password=secret").expect_err(name);
        assert!(refused.contains(told), "{name}: {refused}");
        let logs = || proxy.stderr().contains(logged) && proxy.stderr().contains("blame=\"settings\"");
        assert!(eventually(logs), "{name}: {}", proxy.stderr());
    }
}

#[test]
fn a_server_that_is_gone_is_told_of_and_passed_over_for_another() {
    let server = server();
    let (file, nowhere) = (looker(&server), format!("127.0.0.1:{}", free_port()));
    let arguments = arguments(&file, LOOK_UP, &[]);
    let alone = Proxy::of_url(&format!("postgres://{nowhere}"), "postgres", &arguments);
    let refused = psql(&alone, "scram", "password=secret").expect_err("nobody is there");
    let told = format!("FATAL:  untwin: could not connect to the database server at {nowhere}: ");
    assert!(refused.contains(&told) && refused.contains("HINT:  Check that the server runs"), "{refused}");
    assert!(eventually(|| alone.stderr().contains("blame=\"upstream\"")), "{}", alone.stderr());
    let url = format!("postgres://{nowhere},{}", server.cluster.address());
    let both = Proxy::of_url(&url, "postgres", &arguments);
    assert_eq!(psql(&both, "scram", "password=secret").as_deref(), Ok("scram"));
}

#[test]
fn a_storm_of_logins_looks_up_a_few_at_a_time() {
    let server = server();
    run(&server, "CREATE ROLE storm LOGIN PASSWORD 'looks' IN ROLE looked_up; GRANT looker TO storm");
    let file = users_file(&server, "\"storm\" \"looks\"\n");
    let query = "SELECT l.* FROM look_up($1) l, pg_sleep(0.05)";
    let asks = ["--auth", "terminate", "--auth-user", "storm", "--auth-file", &file, "--auth-query", query];
    let proxy = Proxy::of_url(&server.url(""), "postgres", &asks);
    let mut watcher = Wire::connect(server.cluster.address(), "postgres");
    let mut lookups = || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'storm' AND application_name = 'untwin auth_query'";
        watcher.rows(sql)[0].parse::<usize>().expect("a number")
    };
    let target = format!("host=127.0.0.1 port={} user=scram dbname=postgres", proxy.address.port());
    let mut storm: Vec<_> = (0..40)
        .map(|_| {
            let mut psql = Command::new(crate::support::program::find("psql"));
            psql.args(["-X", "-c", "SELECT 1", "-d", &target]).env("PGPASSWORD", "secret");
            psql.stdout(std::process::Stdio::null()).spawn().expect("psql starts")
        })
        .collect();
    let mut most = 0;
    while storm.iter_mut().any(|psql| psql.try_wait().is_ok_and(|status| status.is_none())) {
        most = most.max(lookups());
    }
    assert!((2..=8).contains(&most), "{most} lookups at a time");
    for mut psql in storm {
        assert!(psql.wait().is_ok_and(|status| status.success()), "{}", proxy.stderr());
    }
    let idle = std::cell::RefCell::new(lookups);
    assert!(eventually(|| (idle.borrow_mut())() == 0), "sessions without work end");
}
