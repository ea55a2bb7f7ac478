//! The catalog as a real Postgres describes it: a cluster of its own, one table for every verdict.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use untwin::catalog::model::{ColumnKind, DefaultKind, Table, Unprotected};
use untwin::catalog::resolve::{default_path_probe, parse_scope};
use untwin::catalog::{self, Catalog, Resolution, Scope, Temporary};
use untwin::sql::name::Name;

/// A private server: socket only, no durability, stopped and removed when dropped.
struct Cluster {
    directory: tempfile::TempDir,
    binaries: PathBuf,
}

impl Cluster {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let cluster = Self { directory, binaries: binaries() };
        if is_root() {
            fs::set_permissions(cluster.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
            succeed(Command::new("chown").arg("postgres").arg(cluster.directory.path()));
        }
        let data = cluster.data();
        succeed(cluster.server_tool("initdb").arg("-D").arg(&data).args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]));
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={} -c fsync=off",
            cluster.directory.path().display()
        );
        succeed(
            cluster
                .server_tool("pg_ctl")
                .arg("-D")
                .arg(&data)
                .args(["-w", "-o", &options])
                .arg("-l")
                .arg(cluster.directory.path().join("log"))
                .arg("start"),
        );
        cluster
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A tool of the server, as a user that the server accepts.
    fn server_tool(&self, name: &str) -> Command {
        let tool = self.binaries.join(name);
        if !is_root() {
            return Command::new(tool);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(tool);
        command
    }

    /// Runs a script in one session and returns what its queries print.
    fn run(&self, database: &str, script: &str) -> String {
        let mut psql = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-h"])
            .arg(self.directory.path())
            .env_remove("PGOPTIONS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("psql");
        psql.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = psql.wait_with_output().unwrap();
        assert!(output.status.success(), "psql failed in {database}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn catalog(&self, database: &str, settings: &str) -> Catalog {
        let answer = self.run(database, &format!("{settings}\n{}\n;", catalog::load::STATEMENT));
        catalog::load::parse(&answer, 1).expect("the answer")
    }

    fn scope(&self, settings: &str) -> Scope {
        let answer = self.run("rich", &format!("{settings}\n{}\n;", default_path_probe()));
        parse_scope(&answer).expect("the answer").scope
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.data();
        let _ = self
            .server_tool("pg_ctl")
            .arg("-D")
            .arg(data)
            .args(["-m", "immediate", "stop"])
            .stdout(Stdio::null())
            .status();
    }
}

/// The server to test with: `TEST_POSTGRES_BIN`, or the newest that Debian's packages installed.
fn binaries() -> PathBuf {
    if let Some(directory) = std::env::var_os("TEST_POSTGRES_BIN") {
        return directory.into();
    }
    let installed = fs::read_dir("/usr/lib/postgresql").expect("a Postgres server, or TEST_POSTGRES_BIN");
    let newest = installed.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).max();
    newest.expect("a Postgres server, or TEST_POSTGRES_BIN")
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn succeed(command: &mut Command) {
    let status = command.stdout(Stdio::null()).status().expect("the command starts");
    assert!(status.success(), "{command:?}");
}

fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/catalog").join(name);
    fs::read_to_string(path).expect("the script")
}

/// Everything the tests look at, asked of one server that is gone again.
struct Observed {
    rich: Catalog,
    /// The same database, asked by a session that is set against it.
    beset: Catalog,
    /// A database whose names are not ASCII.
    accented: Catalog,
    plain_scope: Scope,
    temporary_scope: Scope,
    hidden_scope: Scope,
    version: u32,
}

fn observed() -> &'static Observed {
    static OBSERVED: OnceLock<Observed> = OnceLock::new();
    OBSERVED.get_or_init(|| {
        let cluster = Cluster::start();
        cluster.run("postgres", "CREATE DATABASE rich;\nCREATE DATABASE accented;");
        cluster.run("rich", &script("tables.sql"));
        let rich = cluster.catalog("rich", "");
        cluster.run("rich", &script("hostile.sql"));
        cluster.run("accented", "CREATE SCHEMA \"größe\"; CREATE TABLE \"größe\".\"naïve\" (\"clé\" uuid PRIMARY KEY);");
        Observed {
            rich,
            beset: cluster.catalog(
                "rich",
                "SET search_path = hostile, pg_catalog; SET pg_catalog.standard_conforming_strings = off;
                 SET quote_all_identifiers = on; SET client_encoding = 'SQL_ASCII'; SET enable_hashjoin = off;",
            ),
            accented: cluster.catalog("accented", "SET client_encoding = 'LATIN1';"),
            plain_scope: cluster.scope("SET search_path = \"$user\", two, missing, one;"),
            temporary_scope: cluster.scope("SET search_path = one, pg_temp; CREATE TEMP TABLE homonym (id uuid);"),
            hidden_scope: cluster.scope("SET search_path = one, pg_temp;"),
            version: cluster.run("rich", "SHOW server_version_num").parse().unwrap(),
        }
    })
}

fn table<'a>(catalog: &'a Catalog, display: &str) -> &'a Table {
    let found = catalog.tables().find(|table| table.display == display);
    found.unwrap_or_else(|| panic!("no {display}"))
}

/// `constraint: column`, then the reason if the key is left alone and `!` if it cannot be opted in.
fn verdicts(catalog: &Catalog, display: &str) -> Vec<String> {
    let name = |at: usize| table(catalog, display).columns[at].name.as_str();
    let protected = table(catalog, display).keys.iter().map(|key| {
        let columns: Vec<&str> = key.columns.iter().map(|at| name(*at)).collect();
        format!("({}) {}", columns.join(","), name(key.rekey))
    });
    let unprotected = table(catalog, display)
        .unprotected
        .iter()
        .map(|key| format!("{} {:?}{}", key.column, key.reason, if key.key.is_some() { "" } else { "!" }));
    protected.chain(unprotected).collect()
}

const VERDICTS: &[(&str, &[&str])] = &[
    ("public.plain", &["(id) id", "(id) id"]),
    ("public.of_domain", &["(id) id"]),
    ("public.of_text", &["(id) id"]),
    ("public.of_varchar", &["(id) id"]),
    ("public.of_char", &["(id) id"]),
    ("public.of_citext", &["(id) id"]),
    ("public.of_numbers", &[]),
    ("public.composite", &["(tenant,id,lang) id"]),
    ("public.two_keys", &["(id) id", "(external_id) external_id"]),
    ("public.dropped", &["(id) id"]),
    ("public.without_key", &[]),
    ("public.\"Odd Schema\"", &["(id) id"]),
    ("\"Sales\".\"Order \"\"1\"\"\"", &["(Id) Id"]),
    ("\"Sales\".\"user\"", &["(id) id"]),
    ("public.deferred", &["id Deferrable"]),
    ("public.partial", &["id Partial"]),
    ("public.expression", &["id Expression!"]),
    ("public.invalid", &["id Invalid"]),
    ("public.generated", &["id Expression!"]),
    ("public.not_distinct", &["(tenant,id) id"]),
    ("public.collated", &["id Collation"]),
    ("public.excluded", &[]),
    ("public.extension_row", &["id ForeignKey"]),
    ("public.membership", &["b ForeignKey"]),
    ("public.line", &["(parent,id) id"]),
    ("public.tree", &["(id) id"]),
    ("public.child_without_uuid_key", &[]),
    ("public.part", &["(id,at) id"]),
    ("public.part_2024", &["(id,at) id", "(id) id"]),
    ("public.part_2025", &["(id,at) id"]),
    ("public.part_2025_0", &["(id,at) id"]),
    ("public.part_moved", &["id BeforeTrigger"]),
    ("public.part_moved_0", &["id BeforeTrigger"]),
    ("public.part_parent_trigger", &["(id) id"]),
    ("public.ancestor", &["(id) id"]),
    ("public.heir", &["(id) id"]),
    ("public.before_harmless", &["(id) id"]),
    ("public.before_skips", &["id BeforeTrigger"]),
    ("public.before_sets_id", &["id BeforeTrigger"]),
    ("public.before_disabled", &["(id) id"]),
    ("public.before_replica", &["id BeforeTrigger"]),
    ("public.before_statement", &["(id) id"]),
    ("public.before_update", &["(id) id"]),
    ("public.before_built_in", &["id BeforeTrigger"]),
    ("public.after_deleting", &["(id) id"]),
    ("public.noisy_default", &["id FreeingExpression"]),
    ("public.noisy_checked", &["id FreeingExpression"]),
    ("public.noisy_typed", &["id FreeingExpression"]),
    ("public.noisy_operator", &["id FreeingExpression"]),
    ("public.noisy_array", &["id FreeingExpression"]),
    ("public.noisy_composite", &["id FreeingExpression"]),
    ("public.noisy_generated", &["id FreeingExpression"]),
    ("public.noisy_index", &["id FreeingExpression"]),
    ("public.noisy_policy", &["id FreeingExpression"]),
    ("public.noisy_when", &["id FreeingExpression"]),
    ("public.noisy_parsed_default", &["id FreeingExpression"]),
    ("public.noisy_part", &["id FreeingExpression"]),
    ("public.noisy_part_0", &["id FreeingExpression"]),
    ("public.quiet_default", &["(id) id"]),
    ("public.moving_default", &["(id) id"]),
    ("public.ruled", &["id InsertRule"]),
    ("public.ruled_delete", &["(id) id"]),
    ("public.shown", &["shown_id View", "shown_id View"]),
    ("public.shown_without_key", &[]),
    ("public.shown_instead", &["id InsteadOfTrigger", "id InsteadOfTrigger"]),
    ("public.joined", &[]),
    ("public.stored", &[]),
    ("one.homonym", &["(id) id"]),
];

#[test]
fn every_kind_of_key_has_its_verdict() {
    for (name, expected) in VERDICTS {
        let mut found = verdicts(&observed().rich, name);
        found.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_session_with_hostile_settings_learns_the_same() {
    let (rich, beset) = (&observed().rich, &observed().beset);
    for table in rich.tables().filter(|table| table.schema != "information_schema") {
        let theirs = beset.table(table.id).unwrap_or_else(|| panic!("no {}", table.display));
        let told = |table: &Table| {
            let columns: Vec<_> = table
                .columns
                .iter()
                .map(|column| (column.name.clone(), column.kind, column.default))
                .collect();
            format!(
                "{} {columns:?} {:?} {:?} {}",
                table.display, table.keys, table.unprotected, table.insert_frees
            )
        };
        assert_eq!(told(table), told(theirs));
    }
    assert_eq!(default_of(beset, "hostile.clocked", "at"), DefaultKind::Volatile);
}

#[test]
fn names_that_are_not_ascii_arrive_whatever_the_clients_encoding() {
    let catalog = &observed().accented;
    assert_eq!(verdicts(catalog, "\"größe\".\"naïve\""), ["(clé) clé"]);
}

fn default_of(catalog: &Catalog, display: &str, column: &str) -> DefaultKind {
    let columns = &table(catalog, display).columns;
    columns.iter().find(|candidate| candidate.name == column).expect(column).default
}

#[test]
fn a_default_is_stable_only_if_it_is_the_same_all_through_a_transaction() {
    use DefaultKind::{Null, Stable, Volatile};
    let cases: &[(DefaultKind, &[&str])] = &[
        (Null, &["none", "null_constant"]),
        (
            Stable,
            &[
                "constant",
                "cast_constant",
                "number",
                "at_now",
                "at_current",
                "today",
                "tomorrow",
                "local_now",
                "of_domain",
            ],
        ),
        (
            Volatile,
            &[
                "maybe_null",
                "clock",
                "statement",
                "tenant",
                "who",
                "random_id",
                "number_next",
                "serial_number",
                "by_identity",
                "own_stable",
                "own_immutable",
            ],
        ),
    ];
    for (expected, columns) in cases {
        for column in *columns {
            assert_eq!(default_of(&observed().rich, "public.defaults", column), *expected, "{column}");
        }
    }
    let made = table(&observed().rich, "public.defaults").columns.last().unwrap();
    assert!(made.generated && made.name == "made");
}

#[test]
fn columns_have_the_kind_of_their_base_type() {
    for (name, kind, printed) in [
        ("public.plain", ColumnKind::Uuid, "uuid"),
        ("public.of_domain", ColumnKind::Uuid, "uuid_domain_twice"),
        ("public.of_text", ColumnKind::Text, "text"),
        ("public.of_varchar", ColumnKind::Text, "character varying(36)"),
        ("public.of_char", ColumnKind::Char, "character(36)"),
        ("public.of_citext", ColumnKind::Citext, "citext"),
    ] {
        let column = &table(&observed().rich, name).columns[0];
        assert_eq!((column.kind, &*column.type_name), (kind, printed), "{name}");
    }
    let kinds = table(&observed().rich, "public.readings").columns.iter().map(|column| column.kind);
    let (always, settings, never) = (ColumnKind::Other, ColumnKind::BySettings, ColumnKind::ByName);
    let expected = [vec![ColumnKind::Uuid], vec![always; 6], vec![settings; 6], vec![never; 5]].concat();
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    assert!(table(&observed().rich, "public.not_distinct").keys[0].nulls_not_distinct);
    let names: Vec<&str> =
        table(&observed().rich, "public.dropped").columns.iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["id", "note"]);
}

#[test]
fn partitions_share_their_parents_window_and_heirs_do_not() {
    let window =
        |name| table(&observed().rich, name).keys.iter().find(|key| key.columns.len() == 2).unwrap().index;
    for partition in ["public.part_2024", "public.part_2025", "public.part_2025_0"] {
        assert_eq!(window(partition), window("public.part"), "{partition}");
    }
    let single =
        |name| table(&observed().rich, name).keys.iter().find(|key| key.columns.len() == 1).unwrap().index;
    assert_ne!(single("public.part_2024"), window("public.part"));
    assert_ne!(single("public.heir"), single("public.ancestor"));
}

#[test]
fn triggers_rules_and_expressions_free_keys_where_their_functions_could() {
    let frees = |table: &Table| {
        let events = [table.insert_frees, table.update_frees, table.delete_frees, table.truncate_frees];
        events
            .into_iter()
            .zip("iudt".chars())
            .map(|(frees, letter)| if frees { letter } else { '-' })
            .collect::<String>()
    };
    for (name, expected) in [
        ("public.of_text", "----"),
        ("public.before_harmless", "----"),
        ("public.before_built_in", "----"),
        ("public.before_disabled", "----"),
        ("public.after_audits", "----"),
        ("public.after_deleting", "i---"),
        ("public.after_calling", "i---"),
        ("public.after_chain", "i---"),
        ("public.after_update_deleting", "-u--"),
        ("public.on_truncate_deleting", "---t"),
        ("public.number_deleting", "--d-"),
        // A DELETE here cascades to number_deleting.
        ("public.plain", "--d-"),
        ("public.part_parent_trigger", "iu--"),
        ("public.part_parent_trigger_0", "iu--"),
        ("public.noisy_default", "iu--"),
        ("public.noisy_checked", "iu--"),
        ("public.noisy_typed", "iu--"),
        ("public.noisy_operator", "iu--"),
        ("public.noisy_array", "iu--"),
        ("public.noisy_policy", "iu--"),
        ("public.known_default", "----"),
        ("public.quiet_default", "----"),
        ("public.ruled", "i---"),
        ("public.ruled_delete", "--d-"),
        ("public.shown_deleting", "i---"),
    ] {
        assert_eq!(frees(table(&observed().rich, name)), expected, "{name}");
    }
}

#[test]
fn reaches_follow_foreign_keys_inheritance_partitions_and_views() {
    let catalog = &observed().rich;
    let names = |ids: &[untwin::catalog::model::TableId]| {
        let mut names: Vec<&str> = ids.iter().map(|id| &*catalog.table(*id).unwrap().name).collect();
        names.sort_unstable();
        names.join(" ")
    };
    let of = |name| table(catalog, name);
    let plain = "child_without_uuid_key extension_row grandchild line number_deleting plain";
    assert_eq!(names(&of("public.plain").delete_reaches), plain);
    assert_eq!(names(&of("public.plain").update_reaches), "line plain");
    assert_eq!(names(&of("public.shown_twice").delete_reaches), format!("{plain} shown shown_twice"));
    assert_eq!(names(&of("public.of_domain").truncate_reaches), "membership of_domain");
    assert_eq!(
        names(&of("public.part_2025_0").delete_reaches),
        "part part_2024 part_2025 part_2025_0 part_child"
    );
    assert_eq!(names(&of("public.ancestor").delete_reaches), "ancestor heir");
    assert_eq!(names(&of("public.heir").delete_reaches), "heir");
}

#[test]
fn foreign_keys_are_known_from_child_to_parent() {
    let catalog = &observed().rich;
    let keys = |name: &str| -> Vec<String> {
        let child = table(catalog, name);
        let key = |key: &untwin::catalog::model::ForeignKey| {
            let parent = catalog.table(key.parent).unwrap();
            let names = |table: &Table, at: &[usize]| {
                at.iter().map(|at| table.columns[*at].name.clone()).collect::<Vec<_>>().join(",")
            };
            format!(
                "{} -> {}({})",
                names(child, &key.columns),
                parent.name,
                names(parent, &key.parent_columns)
            )
        };
        child.foreign_keys.iter().map(key).collect()
    };
    for (name, expected) in [
        ("public.line", &["parent -> plain(id)"][..]),
        ("public.tree", &["parent -> tree(id)"]),
        ("public.child_without_uuid_key", &["plain_id -> plain(id)"]),
        ("public.grandchild", &[]),
        ("public.part_child", &["part_id,part_at -> part(id,at)"]),
    ] {
        assert_eq!(keys(name), expected, "{name}");
    }
    assert!(table(catalog, "public.part_2024").referenced && !table(catalog, "public.line").referenced);
}

#[test]
fn volatile_functions_those_that_call_one_that_frees_and_views_of_them_are_opaque() {
    let catalog = &observed().rich;
    let name = |text: &str| match text.split_once('.') {
        Some((schema, name)) => Name { schema: Some(schema.into()), name: name.into() },
        None => Name { schema: None, name: text.into() },
    };
    for (text, expected) in [
        ("purge", true),
        ("public.purge", true),
        ("one.purge", false),
        ("noisy_sum", true),
        ("noisy_equal", true),
        ("noisy_parsed", true),
        ("quiet", true),
        ("of_row", true),
        ("moves", true),
        ("deallocates", true),
        ("query_to_xml", true),
        ("quiet_parsed", false),
        ("fixed", false),
        ("steady", false),
        ("now", false),
        ("set_limit", false),
        ("skips", false),
    ] {
        assert_eq!(catalog.is_opaque_function(&name(text)), expected, "{text}");
    }
    for (text, expected) in [
        ("noisy_view", true),
        ("noisy_view_again", true),
        ("public.noisy_view", true),
        ("noisy_domain", true),
        ("===", true),
        ("row_type", true),
        ("text", false),
        ("noisy_policy", true),
        ("quiet_view", false),
        ("plain", false),
    ] {
        assert_eq!(catalog.is_opaque_word(&name(text)), expected, "{text}");
    }
    let deallocating =
        ["deallocates", "noisy", "fixed"].map(|text| catalog.is_deallocating_function(&name(text)));
    assert_eq!(deallocating, [true, false, false]);
    let moving = ["moving_default", "moving_trigger", "plain", "noisy_default"]
        .map(|text| table(catalog, &format!("public.{text}")).moves_names);
    assert_eq!(moving, [true, true, false, false]);
}

#[test]
fn names_resolve_as_the_server_resolves_them() {
    let all = observed();
    let bare = |name: &str| Name { schema: None, name: name.into() };
    let told = |name: &str, scope: &Scope| match all.rich.resolve(&bare(name), scope) {
        Resolution::Table(table) => table.display.clone(),
        other => format!("{other:?}"),
    };
    assert_eq!(all.plain_scope.path, catalog::Path::Known(vec!["two".into(), "one".into()]));
    assert_eq!(all.hidden_scope.path, catalog::Path::Unknown);
    assert!(matches!(&all.temporary_scope.temporary, Temporary::Known(names) if names.contains("homonym")));
    for (name, scope, expected) in [
        ("homonym", &all.plain_scope, "two.homonym"),
        ("homonym", &all.temporary_scope, "one.homonym"),
        ("homonym", &all.hidden_scope, "Unknown"),
        ("columns", &all.hidden_scope, "two.columns"),
        ("pg_class", &all.plain_scope, "pg_catalog.pg_class"),
        ("plain", &all.plain_scope, "public.plain"),
        ("missing", &all.plain_scope, "NotFound"),
    ] {
        assert_eq!(told(name, scope), expected, "{name}");
    }
    assert!(all.rich.has_homonyms() && !all.accented.has_homonyms());
}

#[test]
fn the_listing_names_every_key_and_the_setting_that_opts_it_in() {
    let findings: Vec<_> = observed().rich.findings().collect();
    let of = |display: &str| findings.iter().find(|finding| finding.table.display == display).unwrap();
    assert!(of("public.plain").reason.is_none() && of("public.plain").opt_in().is_none());
    assert_eq!(of("public.before_skips").reason, Some(Unprotected::BeforeTrigger));
    assert!(of("public.expression").opt_in().is_none());
    let settings: toml::Table = of("\"Sales\".\"odd \"\"one\"\"\"").opt_in().unwrap().parse().unwrap();
    assert_eq!(settings["table"][0]["name"].as_str(), Some("\"Sales\".\"odd \"\"one\"\"\""));
}

#[test]
fn temporal_keys_and_virtual_columns_are_known_for_what_they_are() {
    if observed().version < 180_000 {
        return;
    }
    let catalog = &observed().rich;
    assert_eq!(verdicts(catalog, "public.temporal"), [""; 0]);
    assert_eq!(verdicts(catalog, "public.virtual"), ["(id) id"]);
    assert_eq!(default_of(catalog, "public.virtual", "id"), DefaultKind::Volatile);
    assert!(table(catalog, "public.virtual").columns[2].generated);
    assert_eq!(table(catalog, "public.not_enforced").foreign_keys.len(), 1);
}
