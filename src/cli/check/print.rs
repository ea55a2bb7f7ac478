//! How the findings of `untwin check` are printed: for people, or as one JSON object a key.

use std::io::{self, Write};

use serde_json::json;

use super::find::{Key, Report, Setting, TableReport, Verdict};
use crate::cli::table::printable;
use crate::rekey::policy::Meaning;

/// Table by table, for people.
pub(super) fn text(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "settings: {}", list(&report.settings))?;
    report.meanings.iter().try_for_each(|one| meaning(one, out))?;
    for exception in &report.exceptions {
        writeln!(out, "for {}", printable(exception))?;
    }
    for table in &report.tables {
        writeln!(out, "\n{}", printable(&table.table))?;
        one_table(table, &report.settings, out)?;
    }
    if !report.tables.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{}", summary(report))
}

fn one_table(table: &TableReport, general: &[Setting], out: &mut impl Write) -> io::Result<()> {
    for key in &table.keys {
        writeln!(out, "  {}: {}{}", name(key), verdict(key.verdict), others(key))?;
    }
    if table.settings != general {
        let own: Vec<Setting> = table.settings.iter().filter(|own| !general.contains(own)).copied().collect();
        writeln!(out, "  settings: {}", list(&own))?;
    }
    if !table.volatile.is_empty() {
        let columns = table.volatile.join(", ");
        writeln!(out, "  may differ between two deliveries of one row: {}", printable(&columns))?;
    }
    if table.referenced {
        writeln!(out, "  a foreign key references it: mode strict forwards its twins")?;
    }
    for line in &table.forgets {
        writeln!(out, "  {}", printable(line))?;
    }
    if let Some(lines) = &table.opt_in {
        let whole = lines.starts_with('[');
        writeln!(out, "  to protect it all the same{}:", if whole { "" } else { ", in its [[table]]" })?;
        for line in lines.lines() {
            writeln!(out, "    {}", printable(line))?;
        }
    }
    Ok(())
}

/// What a setting means now, and what each of its other values would.
fn meaning(Meaning { name, value, now, otherwise }: &Meaning, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "  {name} {value}: {now}")?;
    otherwise.iter().try_for_each(|(other, then)| writeln!(out, "    {other} instead: {then}"))
}

/// The columns that could be rekeyed instead.
fn others(key: &Key) -> String {
    let quoted = key.others.iter().map(|column| format!("rekey = \"{}\"", printable(column)));
    match quoted.collect::<Vec<_>>().join(" or ") {
        none if none.is_empty() => none,
        lines => format!("; {lines} would change that column instead"),
    }
}

/// `constraint (column)`.
fn name(key: &Key) -> String {
    match key.constraint.as_str() {
        "" => printable(&key.column),
        constraint => printable(&format!("{constraint} ({})", key.column)),
    }
}

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Protected => "protected".to_owned(),
        Verdict::OptedIn(reason) => format!("protected by configuration, although {reason}"),
        Verdict::SwitchedOff => "not protected: the configuration says protect = false".to_owned(),
        Verdict::Unprotected { reason, can_opt_in: true } => format!("not protected: {reason}"),
        Verdict::Unprotected { reason, .. } => format!("cannot be protected: {reason}"),
    }
}

/// Every setting, what is not the default with it.
fn list(settings: &[Setting]) -> String {
    let one = |Setting { name, value, default }: &Setting| {
        if value == default {
            format!("{name} {value}")
        } else {
            format!("{name} {value} (default: {default})")
        }
    };
    settings.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// One line on how many keys are protected.
fn summary(report: &Report) -> String {
    let count = |counts: fn(Verdict) -> bool| {
        report.tables.iter().flat_map(|table| &table.keys).filter(|key| counts(key.verdict)).count()
    };
    let all = count(|_| true);
    let opted_in = count(|verdict| matches!(verdict, Verdict::OptedIn(_)));
    let protected = opted_in + count(|verdict| verdict == Verdict::Protected);
    let can = count(|verdict| matches!(verdict, Verdict::Unprotected { can_opt_in: true, .. }));
    let cannot = count(|verdict| matches!(verdict, Verdict::Unprotected { can_opt_in: false, .. }));
    let off = count(|verdict| verdict == Verdict::SwitchedOff);
    let remarks = [
        (opted_in, "by configuration"),
        (can, "not, and the configuration can change that"),
        (off, "switched off by the configuration"),
        (cannot, "cannot be"),
    ];
    let keys = if all == 1 { "key" } else { "keys" };
    let mut text = format!("{all} UUID {keys}: {protected} protected");
    for (count, remark) in remarks.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {remark}"));
    }
    text
}

/// One object a key, a line each.
pub(super) fn json(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for table in &report.tables {
        for key in &table.keys {
            writeln!(out, "{}", object(table, key))?;
        }
    }
    Ok(())
}

fn object(table: &TableReport, key: &Key) -> serde_json::Value {
    let (protected, reason) = match key.verdict {
        Verdict::Protected => (true, None),
        Verdict::OptedIn(reason) => (true, Some(reason.to_string())),
        Verdict::SwitchedOff => (false, Some("protect = false".to_owned())),
        Verdict::Unprotected { reason, .. } => (false, Some(reason.to_string())),
    };
    let can_opt_in = matches!(key.verdict, Verdict::Unprotected { can_opt_in: true, .. });
    let mut object = json!({
        "table": table.table,
        "constraint": key.constraint,
        "column": key.column,
        "protected": protected,
        "by_configuration": matches!(key.verdict, Verdict::OptedIn(_) | Verdict::SwitchedOff),
        "reason": reason,
        "opt_in": table.opt_in.as_ref().filter(|_| can_opt_in),
        "forgets": table.forgets,
        "rekey_could_be": key.others,
        "volatile_columns": table.volatile,
        "referenced": table.referenced,
    });
    for setting in &table.settings {
        object[setting.name] = setting.value.into();
    }
    object
}

/// What does not fit, a line each.
pub(super) fn problems(report: &Report) -> String {
    let count = report.problems.len();
    let head = format!("the configuration has {count} problem{}", if count == 1 { "" } else { "s" });
    let lines = report.problems.iter().map(|problem| format!("\n  {}", printable(problem)));
    head + &lines.collect::<String>()
}
