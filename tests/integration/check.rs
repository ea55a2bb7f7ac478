//! `untwin check` against a schema with every verdict: what it prints, and how it ends.

use std::process::Output;

use serde_json::Value as Json;

use crate::support::cluster::free_port;
use crate::support::proxy::binary;
use crate::support::{Database, program};

/// One table, view or function for every verdict. The end of the file is for psql and newer servers.
fn schema() -> &'static str {
    let whole = include_str!("../catalog/tables.sql");
    whole.split("-- What only Postgres 18 has").next().unwrap_or(whole)
}

/// Runs `untwin check` on a database with this configuration.
fn check(database: &Database, configuration: &str, arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("untwin.toml");
    std::fs::write(&file, configuration).expect("the file can be written");
    let url = format!("postgres://postgres@{}/{}", database.address, database.name);
    let file = file.to_string_lossy();
    program::run(&binary(), &[&["check", "--upstream", &url, "--config", &file], arguments].concat(), "")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one key of a table, as JSON.
fn key(keys: &[Json], table: &str) -> Json {
    let mut found = keys.iter().filter(|key| key["table"] == table);
    let key = found.next().unwrap_or_else(|| panic!("no key of {table}"));
    key.clone()
}

fn keys(output: &Output) -> Vec<Json> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
}

#[test]
fn every_key_is_listed_with_its_verdict() {
    let database = Database::fresh(schema());
    let output = check(&database, "", &["--format", "json"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let keys = keys(&output);
    // Table, constraint, column, a word of the reason, whether the configuration can change it.
    let expected = [
        ("public.plain", "plain_pkey", "id", "", false),
        ("public.of_citext", "of_citext_pkey", "id", "", false),
        ("public.line", "line_pkey", "id", "", false),
        ("\"Sales\".\"Order \"\"1\"\"\"", "Order \"1\"_pkey", "Id", "", false),
        ("public.deferred", "deferred_pkey", "id", "deferrable", true),
        ("public.partial", "partial_index", "id", "partial", true),
        ("public.expression", "expression_index", "id", "expression", false),
        ("public.invalid", "invalid_index", "id", "not valid", true),
        ("public.collated", "collated_pkey", "id", "collation", true),
        ("public.membership", "membership_pkey", "b", "foreign key", true),
        ("public.before_skips", "before_skips_pkey", "id", "BEFORE ROW", true),
        ("public.ruled", "ruled_pkey", "id", "rule", true),
        ("public.noisy_default", "noisy_default_pkey", "id", "a default, CHECK", true),
        ("public.quiet_default", "quiet_default_pkey", "id", "", false),
        ("public.shown", "plain_pkey", "shown_id", "view", true),
        ("public.shown_instead", "plain_pkey", "id", "INSTEAD OF", true),
    ];
    for (table, constraint, column, reason, can_opt_in) in expected {
        let key = key(&keys, table);
        assert_eq!((&key["constraint"], &key["column"]), (&constraint.into(), &column.into()), "{key}");
        assert_eq!(key["protected"], reason.is_empty(), "{key}");
        assert!(key["reason"].as_str().unwrap_or_default().contains(reason), "{key}");
        assert_eq!(!key["opt_in"].is_null(), can_opt_in, "{key}");
        assert_eq!((&key["mode"], &key["returning"]), (&"rewrite".into(), &"stored".into()), "{key}");
    }
}

#[test]
fn the_text_names_triggers_that_free_keys_and_counts() {
    let database = Database::fresh(schema());
    let output = check(&database, "", &[]);
    let text = stdout(&output);
    let expected = [
        "settings: mode rewrite, identical_rows rekey, name_based forward, ambiguous fail, returning stored\n",
        "\npublic.plain\n  plain_pkey (id): protected\n",
        "\npublic.after_deleting\n  after_deleting_pkey (id): protected\n  keys are forgotten after each INSERT: trigger function public.deletes could free keys\n",
        "\npublic.after_audits\n  after_audits_pkey (id): protected\n\n",
        "\npublic.noisy_checked\n  noisy_checked_pkey (id): not protected: a default, CHECK, index or policy calls a function that could free a key between two rows\n",
        "  to protect it all the same:\n    [[table]]\n    name = \"public.deferred\"\n    protect = true\n",
    ];
    for part in expected {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("\npg_catalog."), "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains(" UUID keys: ") && last.contains(" protected, "), "{last}");
}

#[test]
fn the_configuration_is_heard_and_its_faults_are_told() {
    let database = Database::fresh(schema());
    let fits = r#"
        identical_rows = "forward"
        [[table]]
        name = "public.deferred"
        protect = true
        mode = "strict"
        [[table]]
        name = "public.plain"
        protect = false
        [[table]]
        name = "public.not_distinct"
        rekey = "tenant"
    "#;
    let output = check(&database, fits, &["--format", "json"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let keys = keys(&output);
    let told = |table| {
        let key = key(&keys, table);
        let words = ["protected", "by_configuration", "mode", "identical_rows", "column"];
        words.map(|word| key[word].to_string()).join(" ")
    };
    assert_eq!(told("public.deferred"), r#"true true "strict" "forward" "id""#);
    assert_eq!(told("public.plain"), r#"false true "rewrite" "forward" "id""#);
    assert_eq!(told("public.not_distinct"), r#"true false "rewrite" "forward" "tenant""#);
    let faults = r#"
        [[table]]
        name = "public.no_such_table"
        [[table]]
        name = "public.composite"
        rekey = "lang"
        [[table]]
        name = "public.of_numbers"
        rekey = "id"
    "#;
    let output = check(&database, faults, &[]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    // `composite` holds its languages as text, which may hold UUIDs.
    let expected = "untwin: the configuration has 2 problems\n  \
        [[table]] public.no_such_table: the database has no such table\n  \
        [[table]] public.of_numbers: rekey = \"id\" is no column of a unique key of this table\n";
    assert_eq!(told, expected);
    assert!(stdout(&output).contains("composite_pkey (lang): protected"));
}

#[test]
fn what_the_settings_come_to_for_a_table_is_told() {
    let database = Database::fresh(
        "CREATE TABLE par (id uuid PRIMARY KEY, v text, received_at timestamptz, made timestamptz DEFAULT now(), nr bigserial);
         CREATE TABLE ch (n int PRIMARY KEY, pid uuid REFERENCES par);
         CREATE TABLE two (a uuid, b uuid, v text, PRIMARY KEY (a, b))",
    );
    let configuration = r#"
        mode = "strict"
        [[table]]
        name = "public.par"
        volatile_columns = ["v"]
        [[table]]
        name = "public.two"
        returning = "sent"
    "#;
    let text = stdout(&check(&database, configuration, &[]));
    let expected = [
        "  mode strict: Only twins that differ",
        "    rewrite instead: Every twin",
        "    observe instead: No byte changes",
        "  ambiguous fail: ",
        "    keep instead: ",
        "\npublic.par\n  par_pkey (id): protected\n  \
         may differ between two deliveries of one row: v, received_at, made, nr\n  \
         a foreign key references it: mode strict forwards its twins\n",
        "\npublic.two\n  two_pkey (b): protected; rekey = \"a\" would change that column instead\n  \
         settings: returning sent (default: stored)\n",
    ];
    for part in expected {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let keys = keys(&check(&database, configuration, &["--format", "json"]));
    let par = key(&keys, "public.par");
    assert_eq!(par["volatile_columns"], serde_json::json!(["v", "received_at", "made", "nr"]));
    assert_eq!((&par["referenced"], &par["mode"]), (&true.into(), &"strict".into()));
    let two = key(&keys, "public.two");
    assert_eq!(two["rekey_could_be"], serde_json::json!(["a"]));
    assert_eq!((&two["referenced"], &two["returning"]), (&false.into(), &"sent".into()));
}

#[test]
fn a_database_that_cannot_be_read_is_told_with_what_the_url_lacks() {
    let url = format!("postgres://127.0.0.1:{}", free_port());
    let output = program::run(&binary(), &["check", "--upstream", &url], "");
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.contains("cannot read the catalog") && told.contains("Connection refused"), "{told}");
    assert!(told.contains("names no user and no password and no database"), "{told}");
}
