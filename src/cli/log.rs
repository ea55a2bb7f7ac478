//! `untwin log`: finds the entries that are asked for and hands them to a printer.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::Failure;
use super::args::{Format, LogArgs, RunArgs};
use super::table::Table;
use crate::journal::filter::Filter;
use crate::journal::follow::Follower;
use crate::journal::reader::{Entry, Reader, Skipped};
use crate::journal::record::{Action, Fate};

/// The pause between two looks at a journal that is followed.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) fn log(arguments: &LogArgs, out: &mut impl Write) -> Result<(), Failure> {
    let path = journal(arguments)?;
    let filter = arguments.filter(Timestamp::now());
    let mut out = io::BufWriter::new(out);
    let printer = Printer::new(arguments.format);
    if arguments.follow {
        follow(&path, filter, printer, &mut out)
    } else {
        list(&path, filter, printer, &mut out)
    }
}

fn journal(arguments: &LogArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = &arguments.journal {
        return Ok(path.clone());
    }
    let run = RunArgs { config: arguments.config.clone(), ..RunArgs::default() };
    let no_place =
        || Failure::Told("this user has no home directory: name the journal with --journal".to_owned());
    run.sources().settings()?.journal.ok_or_else(no_place)
}

fn list(path: &Path, filter: Filter, mut printer: Printer, out: &mut impl Write) -> Result<(), Failure> {
    let asks_for_all = filter == Filter::default();
    let mut reader = Reader::open(path, filter).map_err(|error| unreadable(path, &error))?;
    let is_absent = reader.is_absent();
    let mut tally = Tally::default();
    for entry in reader.by_ref() {
        let entry = entry.map_err(|error| unreadable(path, &error))?;
        tally.count(&entry);
        printer.print(&entry, out)?;
    }
    printer.flush(out)?;
    let summary = match tally.is_empty() {
        false => tally.sentence(path),
        true if is_absent => absent(path),
        true if asks_for_all => format!("The journal {} holds no records yet.", path.display()),
        true => format!("No record in the journal {} is what was asked for.", path.display()),
    };
    let passed_over = passed_over(reader.skipped());
    match printer {
        Printer::Table(_) => writeln!(out, "{summary}{passed_over}")?,
        // What is printed is for a program; people are told beside it what it does not show.
        Printer::Json if tally.is_empty() || !passed_over.is_empty() => {
            writeln!(io::stderr(), "{summary}{passed_over}")?;
        }
        Printer::Json => {}
    }
    Ok(out.flush()?)
}

fn follow(path: &Path, filter: Filter, mut printer: Printer, out: &mut impl Write) -> Result<(), Failure> {
    let mut follower = Follower::open(path, filter).map_err(|error| unreadable(path, &error))?;
    if follower.is_waiting() {
        writeln!(io::stderr(), "{} Waiting for it.", absent(path))?;
    }
    loop {
        while let Some(entry) = follower.poll().map_err(|error| unreadable(path, &error))? {
            printer.print(&entry, out)?;
        }
        printer.flush(out)?;
        std::thread::sleep(PAUSE);
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let next = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run this as the user that runs untwin, or name another file with --journal"
        }
        _ => "name the journal's file with --journal",
    };
    Failure::Told(format!("cannot read the journal {}: {error}; {next}", path.display()))
}

fn absent(path: &Path) -> String {
    format!(
        "No journal at {}: untwin has recorded nothing there. If it writes elsewhere, name the file with --journal.",
        path.display()
    )
}

fn passed_over(Skipped { torn, foreign }: Skipped) -> String {
    if torn + foreign == 0 {
        return String::new();
    }
    format!(" Lines passed over: {torn} torn, {foreign} not of untwin.")
}

enum Printer {
    Table(Table),
    Json,
}

impl Printer {
    fn new(format: Format) -> Self {
        match format {
            Format::Table => Self::Table(Table::default()),
            Format::Json => Self::Json,
        }
    }

    fn print(&mut self, entry: &Entry, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Table(table) => table.add(entry, out),
            Self::Json => {
                let mut line = Vec::new();
                entry.write_json(&mut line);
                out.write_all(&line)
            }
        }
    }

    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        if let Self::Table(table) = self {
            table.print(out)?;
        }
        out.flush()
    }
}

/// How many records there are, by action and fate.
#[derive(Default)]
struct Tally {
    notes: u64,
    counts: Vec<((Action, Fate), u64)>,
}

impl Tally {
    fn count(&mut self, entry: &Entry) {
        let Entry::Record(record) = entry else {
            self.notes += 1;
            return;
        };
        let kind = (record.action, record.fate);
        match self.counts.iter_mut().find(|(counted, _)| *counted == kind) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((kind, 1)),
        }
    }

    fn is_empty(&self) -> bool {
        self.notes == 0 && self.counts.is_empty()
    }

    fn sentence(&self, path: &Path) -> String {
        let total: u64 = self.counts.iter().map(|(_, count)| count).sum();
        let records = if total == 1 { "record" } else { "records" };
        let actions: Vec<_> =
            [Action::Rekeyed, Action::Observed, Action::Forwarded, Action::Followed, Action::Failed]
                .into_iter()
                .filter_map(|action| self.phrase(action))
                .collect();
        let list = if actions.is_empty() { String::new() } else { format!(": {}", actions.join(", ")) };
        format!("{total} {records}{list}. Journal: {}", path.display())
    }

    /// `3 rekeyed (2 committed, 1 pending)`.
    fn phrase(&self, action: Action) -> Option<String> {
        let count =
            |fate| self.counts.iter().find(|(kind, _)| *kind == (action, fate)).map(|(_, count)| *count);
        let fates = [Fate::Committed, Fate::RolledBack, Fate::Pending, Fate::Unknown];
        let known: Vec<_> = fates.into_iter().filter_map(|fate| Some((fate, count(fate)?))).collect();
        let total: u64 = known.iter().map(|(_, count)| count).sum();
        let parts: Vec<_> =
            known.iter().map(|(fate, count)| format!("{count} {}", fate.name().replace('_', " "))).collect();
        (total > 0).then(|| format!("{total} {} ({})", action.name(), parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Arguments, Command};
    use crate::journal::Config;
    use crate::journal::example as record;
    use crate::journal::record::Record;
    use crate::journal::writer::Journal;
    use clap::Parser;

    fn logged(path: &Path, flags: &[&str]) -> Result<String, String> {
        let words =
            ["untwin", "log", "--journal", path.to_str().unwrap()].into_iter().chain(flags.iter().copied());
        let Command::Log(arguments) = Arguments::parse_from(words).into_command() else {
            panic!("{flags:?}")
        };
        let mut out = Vec::new();
        log(&arguments, &mut out).map_err(|failure| failure.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn written(records: &[Record], committed: &[usize]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j.jsonl");
        let journal = Journal::open(&Config { path: Some(path.clone()), ..Config::default() }).unwrap();
        journal.append(records).unwrap();
        journal.settle(&committed.iter().map(|&at| records[at].id).collect::<Vec<_>>(), Fate::Committed);
        (directory, path)
    }

    #[test]
    fn records_are_listed_and_summed_up() {
        let forwarded = Record { action: Action::Forwarded, new: None, ..record(3) };
        let (_directory, path) = written(&[record(1), record(2), forwarded], &[0, 2]);
        let text = logged(&path, &[]).unwrap();
        assert_eq!(text.lines().count(), 5);
        let expected = "3 records: 2 rekeyed (1 committed, 1 pending), 1 forwarded (1 committed). Journal: ";
        assert_eq!(text.lines().last().unwrap(), format!("{expected}{}", path.display()));
    }

    #[test]
    fn only_what_is_asked_for_is_listed() {
        let other = Record { table: "public.\"Other\"".into(), old: 7, ..record(3) };
        let (_directory, path) = written(&[record(1), record(2), other], &[0, 2]);
        let id = record(2).id.to_string();
        for (flags, count) in [
            (vec!["--fate", "committed"], 2),
            (vec!["--table", "ev"], 2),
            (vec!["--table", "public.\"Other\""], 1),
            (vec!["--id", "ABCDEF00-2222-4222-8222-222222222222"], 3),
            (vec!["--id", &id], 1),
            (vec!["--since", "2026-01-02T03:04:06Z"], 0),
            (vec!["--since", "2026-01-02T03:04:05Z", "--fate", "pending"], 1),
        ] {
            let text = logged(&path, &[&flags[..], &["--format", "json"]].concat()).unwrap();
            assert_eq!(text.lines().count(), count, "{flags:?}\n{text}");
        }
    }

    #[test]
    fn json_lines_have_the_final_fate() {
        let (_directory, path) = written(&[record(1)], &[0]);
        let text = logged(&path, &["--format", "json"]).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["fate"], &value["application"]), (&"committed".into(), &"etl".into()));
    }

    #[test]
    fn who_finds_nothing_is_told_where_it_was_looked_for() {
        let (directory, path) = written(&[], &[]);
        let nowhere = directory.path().join("nowhere/j.jsonl");
        for (path, flags, expected) in [
            (&path, &[][..], "The journal PATH holds no records yet.\n"),
            (&path, &["--fate", "unknown"], "No record in the journal PATH is what was asked for.\n"),
            (&nowhere, &[], "No journal at PATH: untwin has recorded nothing there."),
        ] {
            let text = logged(path, flags).unwrap();
            assert!(text.starts_with(&expected.replace("PATH", path.to_str().unwrap())), "{text}");
        }
    }

    #[test]
    fn lines_passed_over_are_counted() {
        let (_directory, path) = written(&[record(1)], &[]);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{}\n{{}}\n{text}", &text[..50])).unwrap();
        let text = logged(&path, &[]).unwrap();
        assert!(text.ends_with(" Lines passed over: 1 torn, 1 not of untwin.\n"), "{text}");
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_an_error_with_a_next_step() {
        let directory = tempfile::tempdir().unwrap();
        let error = logged(directory.path(), &[]).unwrap_err();
        assert!(error.contains(directory.path().to_str().unwrap()) && error.contains("--journal"), "{error}");
    }
}
