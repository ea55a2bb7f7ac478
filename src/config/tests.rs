//! The configuration's behaviour: precedence, and faults that are told with their place.

use super::*;
use crate::rekey::policy::{Ambiguous, IdenticalRows, Mode, NameBased, Protect, Returning};

fn variables(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// The settings of a file and variables, without flags.
fn load(file: &str, environment: &[(&str, &str)]) -> Result<Settings, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("untwin.toml");
    std::fs::write(&path, file).unwrap();
    let sources = Sources { file: Some(path), environment: variables(environment), ..Sources::default() };
    let place = format!("{}/", directory.path().display());
    sources.settings().map_err(|error| error.to_string().replace(&place, ""))
}

fn policies(file: &str) -> Policies {
    load(file, &[]).unwrap().policies()
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.toml");
    std::fs::write(&path, "mode = \"observe\"\ncatalog_ttl = 5\nworkers = 3\njournal_keep = 2").unwrap();
    let sources = Sources {
        flags: Settings { mode: Some(Mode::Rewrite), ..Settings::default() },
        file: None,
        environment: variables(&[
            ("UNTWIN_MODE", "strict"),
            ("UNTWIN_CATALOG_TTL", "7s"),
            ("UNTWIN_JOURNAL_KEEP", ""),
            ("UNTWIN_UPSTREAM", "postgres://127.0.0.1:5433"),
            ("UNTWIN_CONFIG", path.to_str().unwrap()),
            ("PATH", "/bin"),
        ]),
    };
    let config = sources.config().unwrap();
    assert_eq!(config.policies.for_session("", "", "").rest().mode, Mode::Rewrite);
    assert_eq!(config.catalog_ttl, Duration::from_secs(7));
    assert_eq!((config.workers.get(), config.journal.keep), (3, 2));
    assert_eq!(config.upstream.to_string(), "postgres://127.0.0.1:5433");
    assert_eq!(config.listen[0].to_string(), "127.0.0.1:6432");
    assert_eq!(config.limits.statement_bytes, 64 << 20);
}

#[test]
fn the_file_of_the_flag_wins_over_that_of_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.toml");
    std::fs::write(&path, "journal_keep = 2").unwrap();
    let environment = variables(&[("UNTWIN_CONFIG", "/nowhere/untwin.toml")]);
    let sources = Sources { environment, ..Sources::default() };
    let error = sources.clone().settings().unwrap_err().to_string();
    assert!(error.starts_with("cannot read /nowhere/untwin.toml: "), "{error}");
    assert_eq!(Sources { file: Some(path), ..sources }.settings().unwrap().journal_keep, Some(2));
}

#[test]
fn without_a_database_there_is_no_configuration() {
    let error = Config::compose(Settings::defaults()).unwrap_err().to_string();
    assert_eq!(error, "upstream is not set: give --upstream, UNTWIN_UPSTREAM or upstream in untwin.toml");
}

#[test]
fn servers_that_have_to_fit_are_asked_with_a_login() {
    for (url, wrong) in [
        ("postgres://h,i?target_session_attrs=primary", true),
        ("postgres://h,i?target_session_attrs=any", false),
        ("postgres://u@h,i?target_session_attrs=primary", false),
    ] {
        let settings = Settings { upstream: url.parse().ok(), ..Settings::defaults() };
        match (Config::compose(settings), wrong) {
            (Err(error), true) => {
                assert!(error.to_string().starts_with("target_session_attrs needs a login"), "{error}")
            }
            (Ok(config), false) => assert_eq!(config.warnings(), Vec::<&str>::new(), "{url}"),
            (other, _) => panic!("{url}: {:?}", other.err()),
        }
    }
}

#[test]
fn settings_that_need_each_other_are_told() {
    for (file, expected) in [
        ("client_tls = \"require\"", Some("client_tls = require and client_tls_ca need")),
        ("client_tls_ca = \"/ca.pem\"", Some("client_tls = require and client_tls_ca need")),
        ("client_tls_crl = \"/crl\"", Some("client_tls_crl needs client_tls_ca")),
        ("auth = \"terminate\"", Some("auth = terminate needs auth_file, auth_user or both")),
        ("auth_file = \"/users\"", Some("auth_file and auth_user need auth = terminate")),
        ("auth_user = \"u\"", Some("auth_file and auth_user need auth = terminate")),
        (
            "auth = \"terminate\"\nauth_file = \"/u\"\nauth_dbname = \"d\"",
            Some("auth_query and auth_dbname need auth_user"),
        ),
        ("auth_query = \"SELECT\"", Some("auth_query and auth_dbname need auth_user")),
        ("auth = \"terminate\"\nauth_user = \"u\"\nauth_query = \"SELECT\"", None),
        ("auth = \"terminate\"\nauth_file = \"/users\"", None),
        ("client_tls_key = \"/key.pem\"", Some("client_tls_cert and client_tls_key need each other")),
        ("client_tls = \"require\"\nclient_tls_cert = \"/c.pem\"\nclient_tls_key = \"/k.pem\"", None),
    ] {
        let settings = load(&format!("upstream = \"postgres://h\"\n{file}"), &[]).unwrap();
        let error = Config::compose(settings).err().map(|error| error.to_string());
        assert!(
            match (expected, &error) {
                (Some(expected), Some(error)) => error.starts_with(expected),
                (None, None) => true,
                _ => false,
            },
            "{file}: {error:?}"
        );
    }
}

#[test]
fn every_default_is_there() {
    let upstream = "postgres://127.0.0.1".parse().ok();
    assert!(Config::compose(Settings { upstream, ..Settings::defaults() }).is_ok());
}

#[test]
fn a_fault_in_the_file_is_told_with_its_place() {
    for (file, expected) in [
        ("\nmodus = \"observe\"", "untwin.toml:2:1: unknown field `modus`"),
        ("mode = \"bold\"", "untwin.toml:1:8: unknown variant `bold`, expected one of `rewrite`"),
        ("# é\nupstream = \"postgres://u:secret@h:port\"", "untwin.toml:2:12: this is no URL"),
        ("listen = \"6432\"", "untwin.toml:1:10: `6432` is no address"),
        ("listen = []", "untwin.toml:1:10: invalid length 0, expected addresses"),
        ("listen = [\n\"127.0.0.1:1\",\n\"x\"]", "untwin.toml:3:1: `x` is no address"),
        ("\n\nmax_statement_bytes = \"64M\"", "untwin.toml:3:23: `64M` is no size"),
        ("max_total_key_bytes = 0", "untwin.toml:1:23: `0` is no size"),
        ("max_transaction_key_bytes = -5", "untwin.toml:1:29: `-5` is no size"),
        (
            "max_statement_bytes = 1.5",
            "untwin.toml:1:23: invalid type: floating point `1.5`, expected a size",
        ),
        ("catalog_ttl = \"soon\"", "untwin.toml:1:15: `soon` is no length of time"),
        (
            "connect_timeout = true",
            "untwin.toml:1:19: invalid type: boolean `true`, expected a length of time",
        ),
        ("login_timeout = 0", "untwin.toml:1:17: `0` is no length of time"),
        ("socket_mode = \"0888\"", "untwin.toml:1:15: `0888` are no permissions"),
        (
            "socket_mode = 0o777",
            "untwin.toml:1:15: invalid type: integer `511`, expected permissions in octal digits",
        ),
        ("reuse_port = \"on\"", "untwin.toml:1:14: invalid type: string \"on\""),
        ("proxy_protocol = [\"10.0.0.0/8\",\n\"lan\"]", "untwin.toml:2:1: `lan` is no network"),
        ("max_connections = 0", "untwin.toml:1:19: invalid value: integer `0`"),
        ("max_user_connections = 0", "untwin.toml:1:24: invalid value: integer `0`"),
        ("tcp_keepalive_count = 0", "untwin.toml:1:23: invalid value: integer `0`"),
        ("tcp_user_timeout = 0", "untwin.toml:1:20: `0` is no length of time"),
        ("drain_timeout = 0", "untwin.toml:1:17: `0` is no length of time"),
        ("workers = 0", "untwin.toml:1:11: invalid value: integer `0`"),
        ("journal_keep = -1", "untwin.toml:1:16: invalid value: integer `-1`"),
        ("journal_rotate_bytes = \"\"", "untwin.toml:1:24: `` is no size"),
        ("journal = 5", "untwin.toml:1:11: invalid type: integer `5`"),
        ("log_format = \"xml\"", "untwin.toml:1:14: unknown variant `xml`"),
        ("log_level = \"loud\"", "untwin.toml:1:13: `loud` is no log level"),
        ("name_based = \"x\"", "untwin.toml:1:14: unknown variant `x`"),
        ("identical_rows = \"x\"", "untwin.toml:1:18: unknown variant `x`"),
        ("ambiguous = \"x\"", "untwin.toml:1:13: unknown variant `x`"),
        ("returning = \"x\"", "untwin.toml:1:13: unknown variant `x`"),
        ("mode = \"strict\"\nmode = \"strict\"", "untwin.toml:2:1: duplicate key"),
        ("mode", "untwin.toml:1:5: "),
        ("[[table]]\nprotect = true", "untwin.toml:1:1: missing field `name`"),
        ("[[table]]\nname = \"ev\"", "untwin.toml:2:8: `ev` says no schema: write `public.ev`"),
        ("[[table]]\nname = \"a.b.c\"", "untwin.toml:2:8: `a.b.c`: a table's name is"),
        ("[[table]]\nname = \"a.b\"\nprotect = \"yes\"", "untwin.toml:3:11: invalid type: string \"yes\""),
        ("[[table]]\nname = \"a.b\"\nvolatile = []", "untwin.toml:3:1: unknown field `volatile`"),
        (
            "[[table]]\nname=\"a.b\"\n[[table]]\nname = \"A.\\\"b\\\"\"",
            "untwin.toml:4:8: a second [[table]] with this name",
        ),
        ("[[user]]\nname=\"a\"\n[[user]]\nname = \"a\"", "untwin.toml:4:8: a second [[user]] with this name"),
        ("[[user]]\nname=\"a\"\nprotect = true", "untwin.toml:3:1: unknown field `protect`"),
        ("[[application]]\nname = \"*x\"", "untwin.toml:2:8: a `*` may only end an application name"),
    ] {
        let error = load(file, &[]).unwrap_err();
        assert!(error.starts_with(expected) && !error.contains("secret"), "{file}\n{error}\n{expected}");
    }
}

#[test]
fn a_fault_in_the_environment_names_the_variable() {
    for (name, value, expected) in [
        ("UNTWIN_MODE", "bold", "UNTWIN_MODE: `bold` is none of rewrite, strict, observe"),
        ("UNTWIN_WORKERS", "many", "UNTWIN_WORKERS: "),
        ("UNTWIN_LISTEN", "x", "UNTWIN_LISTEN: `x` is no address"),
        ("UNTWIN_LOG_FORMAT", "xml", "UNTWIN_LOG_FORMAT: write one of human, json"),
        ("UNTWIN_UPSTREAM", "http://secret", "UNTWIN_UPSTREAM: this is no URL"),
        (
            "UNTWIN_MODUS",
            "strict",
            "UNTWIN_MODUS is no variable of untwin; these are: UNTWIN_CONFIG, UNTWIN_UPSTREAM, ",
        ),
        ("UNTWIN_TABLE", "x", "UNTWIN_TABLE is no variable"),
        ("UNTWIN_", "x", "UNTWIN_ is no variable"),
    ] {
        let error = load("", &[(name, value)]).unwrap_err();
        assert!(error.starts_with(expected) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn variables_of_a_service_called_untwin_are_not_ours() {
    let service = [
        ("UNTWIN_SERVICE_HOST", "127.0.0.1"),
        ("UNTWIN_SERVICE_PORT_POSTGRES", "6432"),
        ("UNTWIN_PORT", "tcp://127.0.0.1:6432"),
        ("UNTWIN_PORT_6432_TCP_ADDR", "127.0.0.1"),
    ];
    assert_eq!(load("", &service), Ok(Settings::defaults()));
}

#[test]
fn sections_become_policies() {
    let policies = policies(
        r#"
        identical_rows = "forward"
        [[table]]
        name = "public.ev"
        protect = true
        rekey = "id"
        volatile_columns = ["seen"]
        ambiguous = "keep"
        [[database]]
        name = "shop"
        mode = "strict"
        [[user]]
        name = "ann"
        returning = "sent"
        [[application]]
        name = "etl-*"
        mode = "observe"
        name_based = "rekey"
        "#,
    );
    let session = policies.for_session("ann", "shop", "etl-7");
    let (ev, rest) = (session.table("public.ev"), session.rest());
    assert_eq!(
        (ev.protect, ev.rekey.as_deref(), ev.ambiguous),
        (Protect::Always, Some("id"), Ambiguous::Keep)
    );
    assert!(ev.is_volatile("seen"));
    assert_eq!(
        (rest.mode, rest.name_based, rest.returning),
        (Mode::Observe, NameBased::Rekey, Returning::Sent)
    );
    assert_eq!((rest.identical_rows, rest.ambiguous), (IdenticalRows::Forward, Ambiguous::Fail));
    assert_eq!(policies.for_session("bob", "shop", "psql").rest().mode, Mode::Strict);
}

#[test]
fn settings_are_shown_as_a_file_that_reads_back() {
    let given =
        "upstream = \"postgres://u:secret@h:1/d\"\n[[table]]\nname = \"public.ev\"\nprotect = false\n";
    let shown = toml::to_string(&load(given, &[]).unwrap()).unwrap();
    assert!(shown.contains("upstream = \"postgres://h:1\"\n") && !shown.contains("secret"), "{shown}");
    assert_eq!(toml::to_string(&load(&shown, &[]).unwrap()).unwrap(), shown);
}

#[test]
fn a_login_in_the_url_is_warned_about() {
    for (url, warnings) in [("postgres://h", 0), ("postgres://u:p@h", 1)] {
        let settings = Settings { upstream: url.parse().ok(), ..Settings::defaults() };
        assert_eq!(Config::compose(settings).unwrap().warnings().len(), warnings, "{url}");
    }
}

#[test]
fn the_schema_knows_every_setting_and_its_default() {
    let schema = serde_json::to_value(schema::schema()).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["max_statement_bytes"]["default"], "64MiB");
    assert_eq!(schema["properties"]["mode"]["default"], "rewrite");
    assert!(!schema.to_string().contains("null"), "{schema:#}");
    let defaults = serde_json::to_value(Settings::defaults()).unwrap();
    let told = |property: &serde_json::Value| {
        property["description"].is_string() && (property["type"].is_string() || property["$ref"].is_string())
    };
    for (setting, default) in defaults.as_object().unwrap() {
        let property = &schema["properties"][setting];
        assert!(told(property), "{setting}: {property}");
        // Where the journal is and how many threads there are depends on the machine.
        let of_the_machine = ["journal", "workers"].contains(&setting.as_str());
        assert!(
            of_the_machine || default.is_null() || property["default"] == *default,
            "{setting}: {property}"
        );
    }
    for section in ["ScopeSection", "TableSection"] {
        for (setting, property) in schema["$defs"][section]["properties"].as_object().unwrap() {
            assert!(told(property), "{section} {setting}: {property}");
        }
    }
}
