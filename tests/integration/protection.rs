//! What the configuration says of one table: keys opted in, switched off, or rekeyed in another column.

use tempfile::TempDir;

use crate::expect::{LETTERS, expect_rows};
use crate::support::wire::outcomes;
use crate::support::{Database, Proxy};

/// A proxy with this configuration file.
pub fn configured(database: &Database, configuration: &str) -> (Proxy, TempDir) {
    let directory = TempDir::new().expect("a temporary directory");
    let file = directory.path().join("untwin.toml");
    std::fs::write(&file, configuration).expect("the file can be written");
    (Proxy::with(database, &["--config", &file.to_string_lossy()]), directory)
}

/// The statement with letters replaced by keys.
pub fn spelled(sql: &str) -> String {
    LETTERS.iter().fold(sql.to_owned(), |sql, (letter, key)| sql.replace(&format!("{{{letter}}}"), key))
}

/// Runs the statements one by one; gives what became of the last.
fn last_of(proxy: &Proxy, statements: &[&str]) -> String {
    let mut client = proxy.connect();
    let told = statements.iter().flat_map(|sql| outcomes(&client.query(spelled(sql))));
    told.last().unwrap_or_default()
}

struct Case {
    name: &'static str,
    schema: &'static str,
    configuration: &'static str,
    statements: &'static [&'static str],
    /// What becomes of the last statement through untwin.
    outcome: &'static str,
    /// The same without the configuration.
    unconfigured: &'static str,
    query: &'static str,
    stored: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "a deferrable key",
        schema: "CREATE TABLE t (id uuid PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)",
        configuration: "[[table]]\nname = \"public.t\"\nprotect = true",
        statements: &[
            "BEGIN",
            "INSERT INTO t VALUES ('{K}', 'a')",
            "INSERT INTO t VALUES ('{K}', 'b')",
            "COMMIT",
        ],
        outcome: "COMMIT",
        unconfigured: "!23505",
        query: "SELECT id, v FROM t ORDER BY v",
        stored: &["K|a", "U|b"],
    },
    Case {
        name: "a partial unique index",
        schema: "CREATE TABLE t (id uuid, live bool); CREATE UNIQUE INDEX u ON t (id) WHERE live",
        configuration: "[[table]]\nname = \"public.t\"\nprotect = true",
        statements: &["INSERT INTO t VALUES ('{K}', true), ('{L}', true), ('{K}', true)"],
        outcome: "INSERT 0 3",
        unconfigured: "!23505",
        query: "SELECT id FROM t ORDER BY ctid",
        stored: &["K", "L", "U"],
    },
    Case {
        name: "a BEFORE trigger that may skip a row",
        schema: "CREATE TABLE t (id uuid PRIMARY KEY, v text);
            CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN IF NEW.v = 'skip' THEN RETURN NULL; END IF; RETURN NEW; END$$;
            CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        configuration: "[[table]]\nname = \"public.t\"\nprotect = true",
        statements: &[
            "BEGIN",
            "INSERT INTO t VALUES ('{K}', 'a')",
            "INSERT INTO t VALUES ('{L}', 'skip')",
            "INSERT INTO t VALUES ('{K}', 'b')",
            "COMMIT",
        ],
        outcome: "COMMIT",
        unconfigured: "ROLLBACK",
        query: "SELECT id, v FROM t ORDER BY v",
        stored: &["K|a", "U|b"],
    },
    Case {
        name: "another column of a composite key",
        schema: "CREATE TABLE t (tenant uuid, id uuid, v text, PRIMARY KEY (tenant, id))",
        configuration: "[[table]]\nname = \"public.t\"\nrekey = \"tenant\"",
        statements: &["INSERT INTO t VALUES ('{K}', '{L}', 'a'), ('{K}', '{L}', 'b')"],
        outcome: "INSERT 0 2",
        unconfigured: "INSERT 0 2",
        query: "SELECT * FROM t ORDER BY v",
        stored: &["K|L|a", "U|L|b"],
    },
    Case {
        name: "a table that is switched off",
        schema: "CREATE TABLE t (id uuid PRIMARY KEY, v text)",
        configuration: "[[table]]\nname = \"public.t\"\nprotect = false",
        statements: &["INSERT INTO t VALUES ('{K}', 'a'), ('{K}', 'b')"],
        outcome: "!23505",
        unconfigured: "INSERT 0 2",
        query: "SELECT * FROM t",
        stored: &[],
    },
    Case {
        name: "children of a table that is on follow, though their own keys are switched off",
        schema: "CREATE TABLE p (id uuid PRIMARY KEY, v text);
            CREATE TABLE c (id uuid PRIMARY KEY, p uuid REFERENCES p, v text)",
        configuration: "[[table]]\nname = \"public.c\"\nprotect = false",
        statements: &[
            "BEGIN",
            "INSERT INTO p VALUES ('{K}', 'a')",
            "INSERT INTO c VALUES ('{L}', '{K}', 'of a')",
            "INSERT INTO p VALUES ('{K}', 'b')",
            "INSERT INTO c VALUES ('{M}', '{K}', 'of b')",
            "COMMIT",
        ],
        outcome: "COMMIT",
        unconfigured: "COMMIT",
        query: "SELECT p.id, p.v, c.v FROM c JOIN p ON p.id = c.p ORDER BY c.v",
        stored: &["K|a|of a", "U|b|of b"],
    },
    Case {
        name: "a view",
        schema: "CREATE TABLE t (id uuid PRIMARY KEY, v text); CREATE VIEW w AS SELECT v, id AS key FROM t",
        configuration: "[[table]]\nname = \"public.w\"\nprotect = true",
        statements: &[
            "BEGIN",
            "INSERT INTO w VALUES ('a', '{K}')",
            "INSERT INTO w VALUES ('b', '{K}')",
            "UPDATE w SET key = '{M}' WHERE v = 'c'",
            "INSERT INTO t VALUES ('{L}', 'c')",
            "INSERT INTO w VALUES ('d', '{L}')",
            "COMMIT",
        ],
        outcome: "COMMIT",
        unconfigured: "ROLLBACK",
        query: "SELECT id, v FROM t ORDER BY v",
        stored: &["K|a", "U|b", "L|c", "U2|d"],
    },
    Case {
        name: "a key that is freed behind a view may be used again",
        schema: "CREATE TABLE t (id uuid PRIMARY KEY DEFERRABLE, v text); CREATE VIEW w AS SELECT id, v FROM t",
        configuration: "[[table]]\nname = \"public.w\"\nprotect = true",
        statements: &[
            "BEGIN",
            "INSERT INTO w VALUES ('{K}', 'a')",
            "DELETE FROM t",
            "INSERT INTO w VALUES ('{K}', 'b')",
            "UPDATE t SET id = '{L}'",
            "INSERT INTO w VALUES ('{K}', 'c')",
            "COMMIT",
        ],
        outcome: "COMMIT",
        unconfigured: "COMMIT",
        query: "SELECT id, v FROM t ORDER BY v",
        stored: &["L|b", "K|c"],
    },
];

#[test]
fn the_configuration_decides_which_keys_are_protected() {
    for case in CASES {
        let database = Database::fresh(case.schema);
        let plain = Proxy::before(&database);
        assert_eq!(last_of(&plain, case.statements), case.unconfigured, "{} unconfigured", case.name);
        drop(plain);
        let tables = database.stored("SELECT string_agg(relname, ', ') FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace");
        database.run(&format!("TRUNCATE {}", tables[0]));
        let (proxy, _directory) = configured(&database, case.configuration);
        assert_eq!(last_of(&proxy, case.statements), case.outcome, "{}", case.name);
        expect_rows(case.stored, &database.stored(case.query));
    }
}

#[test]
fn a_statement_that_names_a_shared_key_by_another_name_of_its_table_is_refused() {
    let database = Database::fresh(
        "CREATE TABLE t (id uuid PRIMARY KEY, v text) PARTITION BY HASH (id);
        CREATE TABLE part PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0);
        CREATE TABLE c (p uuid REFERENCES t)",
    );
    let proxy = Proxy::before(&database);
    for (into, statement) in [
        ("t", "DELETE FROM part WHERE id = '{K}'"),
        ("part", "DELETE FROM t WHERE id = '{K}'"),
        ("part", "DELETE FROM c WHERE p = '{K}'"),
    ] {
        let insert = format!("INSERT INTO {into} VALUES ('{{K}}', 'a'), ('{{K}}', 'b')");
        assert_eq!(last_of(&proxy, &["BEGIN", &insert, statement]), "!23505", "{into}: {statement}");
        assert_eq!(last_of(&proxy, &["BEGIN", &insert, "DELETE FROM t WHERE id = '{L}'"]), "DELETE 0");
    }
}

#[test]
fn an_update_through_a_view_frees_the_keys_behind_it() {
    let database = Database::fresh(
        "CREATE TABLE t (id uuid PRIMARY KEY, v text); CREATE VIEW w AS SELECT v, id AS key FROM t; CREATE VIEW x AS SELECT key AS other FROM w",
    );
    let proxy = Proxy::before(&database);
    for (view, column) in [("w", "key"), ("x", "other")] {
        database.run("TRUNCATE t");
        let update = format!("UPDATE {view} SET {column} = '{{L}}'");
        let statements = [
            "BEGIN",
            "INSERT INTO t VALUES ('{K}', 'a')",
            &update,
            "INSERT INTO t VALUES ('{K}', 'b')",
            "COMMIT",
        ];
        assert_eq!(last_of(&proxy, &statements), "COMMIT");
        expect_rows(&["L|a", "K|b"], &database.stored("SELECT id, v FROM t ORDER BY v"));
    }
}

#[test]
fn an_update_that_cascades_into_the_keys_of_children_frees_them() {
    let database = Database::fresh(
        "CREATE TABLE p (code text PRIMARY KEY);
        CREATE TABLE c (code text REFERENCES p ON UPDATE CASCADE, id uuid, v text, PRIMARY KEY (code, id))",
    );
    let statements = [
        "BEGIN",
        "INSERT INTO p VALUES ('x')",
        "INSERT INTO c VALUES ('x', '{K}', 'a')",
        "UPDATE p SET code = 'y'",
        "INSERT INTO p VALUES ('x')",
        "INSERT INTO c VALUES ('x', '{K}', 'b')",
        "COMMIT",
    ];
    assert_eq!(last_of(&Proxy::before(&database), &statements), "COMMIT");
    expect_rows(&["y|K|a", "x|K|b"], &database.stored("SELECT * FROM c ORDER BY v"));
}
