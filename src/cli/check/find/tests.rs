//! Findings over catalogs written by hand.

use super::super::print;
use super::*;
use crate::catalog::load;
use crate::rekey::policy::{Mode, Overrides};

/// `s.t` with a key that is deferrable, `s.both` with a tuple of two UUIDs and a trigger that deletes,
/// `s.made` with an index over an expression.
fn catalog() -> Catalog {
    let index = |oid: u32, table: u32, name: &str, columns: &str, immediate: bool, expression: bool| {
        format!(
            r#"{{"oid": {oid}, "table": {table}, "parent": null, "name": "{name}", "columns": {columns},
                "odd": false, "valid": true, "immediate": {immediate}, "partial": false,
                "expression": {expression}, "nulls_not_distinct": false}}"#
        )
    };
    let uuid = |number: u32, name: &str| format!(r#"[{number}, "{name}", 2950, -1, false, false]"#);
    let json = format!(
        r#"{{"schemas": [[1, "s"]], "types": [[2950, -1, "uuid", "u"], [23, -1, "int", "o"]],
            "relations": [[10, 1, "t", "r"], [11, 1, "both", "r"], [12, 1, "made", "r"], [13, 1, "quiet", "r"]],
            "columns": [[10, [{}, [2, "n", 23, -1, false, false]]], [11, [{}, {}]], [12, [{}]]],
            "indexes": [{}, {}, {}],
            "triggers": [[11, 5, 90]], "trigger_functions": [[90, 1, "purge", "plpgsql", null]]}}"#,
        uuid(1, "id"),
        uuid(1, "tenant"),
        uuid(2, "id"),
        uuid(1, "id"),
        index(20, 10, "t_pkey", "[1, 2]", false, false),
        index(21, 11, "both_pkey", "[1, 2]", true, false),
        index(22, 12, "made_key", "[1, 0]", true, true),
    );
    load::parse(&json, 1).unwrap()
}

fn policies(rules: &[(&str, TableRule)]) -> Policies {
    let mut policies = Policies::default();
    for (name, rule) in rules {
        policies.add_table(name.parse().unwrap(), rule.clone());
    }
    policies
}

fn protect(protect: bool) -> TableRule {
    TableRule { protect: Some(protect), ..TableRule::default() }
}

fn rekey(column: &str) -> TableRule {
    TableRule { rekey: Some(column.into()), ..TableRule::default() }
}

fn verdicts(rules: &[(&str, TableRule)]) -> Vec<(String, Verdict)> {
    let report = report(&catalog(), &policies(rules), "d");
    let keys = report.tables.into_iter().flat_map(|table| table.keys);
    keys.map(|key| (format!("{} {}", key.constraint, key.column), key.verdict)).collect()
}

#[test]
fn every_key_has_its_verdict() {
    let deferrable = Verdict::Unprotected { reason: Unprotected::Deferrable, can_opt_in: true };
    let expression = Verdict::Unprotected { reason: Unprotected::Expression, can_opt_in: false };
    let named = |names: [&str; 3], verdicts: [Verdict; 3]| {
        names.into_iter().map(str::to_owned).zip(verdicts).collect::<Vec<_>>()
    };
    let names = ["both_pkey id", "made_key id", "t_pkey id"];
    assert_eq!(verdicts(&[]), named(names, [Verdict::Protected, expression, deferrable]));
    let rules = [("s.t", protect(true)), ("s.made", protect(true)), ("s.both", protect(false))];
    let opted_in = Verdict::OptedIn(Unprotected::Deferrable);
    assert_eq!(verdicts(&rules), named(names, [Verdict::SwitchedOff, expression, opted_in]));
    let names = ["both_pkey tenant", "made_key id", "t_pkey id"];
    assert_eq!(
        verdicts(&[("s.both", rekey("tenant"))]),
        named(names, [Verdict::Protected, expression, deferrable])
    );
}

#[test]
fn the_lines_that_opt_in_fit_the_configuration_that_is_there() {
    let opt_in = |rules: &[(&str, TableRule)]| {
        let tables = report(&catalog(), &policies(rules), "d").tables;
        tables.into_iter().map(|table| table.opt_in).collect::<Vec<_>>()
    };
    let whole = "[[table]]\nname = \"s.t\"\nprotect = true\n".to_owned();
    assert_eq!(opt_in(&[]), [None, None, Some(whole)]);
    let strict = TableRule {
        overrides: Overrides { mode: Some(Mode::Strict), ..Overrides::default() },
        ..rekey("id")
    };
    assert_eq!(opt_in(&[("s.t", strict)]), [None, None, Some("protect = true\n".to_owned())]);
    assert_eq!(opt_in(&[("s.t", protect(true))]), [None, None, None]);
}

#[test]
fn a_trigger_that_frees_keys_is_named() {
    let forgets: Vec<_> =
        report(&catalog(), &Policies::default(), "d").tables.into_iter().map(|t| t.forgets).collect();
    let told = "keys are forgotten after each INSERT: trigger function s.purge could free keys".to_owned();
    assert_eq!(forgets, [vec![told], vec![], vec![]]);
}

#[test]
fn rules_that_fit_nothing_are_problems() {
    let volatile = TableRule { volatile_columns: ["n".into(), "m".into()].into(), ..TableRule::default() };
    let rules = [
        ("s.gone", protect(true)),
        ("other.t", protect(true)),
        ("s.both", rekey("tenant")),
        ("s.t", volatile),
        ("s.made", rekey("id")),
        ("s.quiet", rekey("id")),
    ];
    let found = report(&catalog(), &policies(&rules), "d").problems;
    let expected = [
        "[[table]] s.gone: the database has no such table",
        "[[table]] other.t: the database has no such table",
        "[[table]] s.t: the table has no column \"m\" (volatile_columns)",
        "[[table]] s.made: rekey = \"id\" is no UUID column of a unique key of this table",
        "[[table]] s.quiet: rekey = \"id\" is no column of a unique key of this table",
    ];
    assert_eq!(found, expected);
    let found = report(&catalog(), &policies(&[("s.t", rekey("n"))]), "d").problems;
    assert_eq!(found, ["[[table]] s.t: rekey = \"n\" is no UUID column of a unique key of this table"]);
}

#[test]
fn what_is_found_is_printed_for_people() {
    let strict = Overrides { mode: Some(Mode::Strict), ..Overrides::default() };
    let mut policies = policies(&[("s.t", TableRule { overrides: strict, ..protect(true) })]);
    policies.add_user("ann".into(), strict);
    policies.add_application("etl-*", Overrides::default());
    let mut out = Vec::new();
    print::text(&report(&catalog(), &policies, "d"), &mut out).unwrap();
    let expected = "\
settings: mode rewrite, identical_rows rekey, name_based forward, ambiguous fail, returning stored
  mode rewrite: Every twin is given a fresh key.
    strict instead: Only twins that differ in content are, on tables that no foreign key references; others are forwarded.
    observe instead: No byte changes; the journal has what `rewrite` would have done.
  identical_rows rekey: A row that equals an earlier one in every column is rekeyed and marked `identical`.
    forward instead: A row that equals an earlier one in every column is forwarded: Postgres refuses it.
  name_based forward: A twin with a name-based key (v3, v5) is forwarded and recorded.
    rekey instead: A twin with a name-based key (v3, v5) is rekeyed.
  ambiguous fail: A reference that may mean either row is refused with 23505; nothing is stored.
    keep instead: A reference that may mean either row is left as it was sent: it names the first.
  returning stored: RETURNING shows the fresh key, as it is stored.
    sent instead: RETURNING shows the key that was sent, unless another row of the statement shows it already.
for user ann: mode strict

s.both
  both_pkey (id): protected; rekey = \"tenant\" would change that column instead
  keys are forgotten after each INSERT: trigger function s.purge could free keys

s.made
  made_key (id): cannot be protected: the index is on an expression or a generated column, which the client does not send

s.t
  t_pkey (id): protected by configuration, although the constraint is deferrable: a key may repeat until it is checked
  settings: mode strict (default: rewrite)

3 UUID keys: 2 protected, 1 by configuration, 1 cannot be
";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
