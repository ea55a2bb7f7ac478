//! The README: its commands are run as they stand there, its configurations are read by the real binary, its list of
//! settings is the schema's, and its links lead somewhere.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::scenario::EV;
use crate::support::pki::Authority;
use crate::support::proxy::{binary, supervised};
use crate::support::{Database, Proxy, Wire, admin, eventually, program};

const README: &str = include_str!("../../README.md");
const TESTS_RUN: &str = include_str!("../run");
/// What the README's examples look for, and what is inserted twice before they are run.
const KEY: &str = "11111111-1111-4111-8111-111111111111";

/// How a command of the README is run.
enum How {
    /// To its end, which is good; this is in what it prints.
    Ends(&'static str),
    /// Until it listens, and on while the commands after it are run.
    Serves,
    /// By `tests/run`, where this stands, which does the same or more: it takes too long for a test, or runs the tests.
    InTestsRun(&'static str),
    /// It is `tests/run`.
    IsTestsRun,
}

/// Every command of the README.
const COMMANDS: &[(&str, How)] = &[
    ("cargo run --release -p quickstart", How::InTestsRun("cargo run --release -p quickstart")),
    ("cargo build --release", How::InTestsRun("cargo run --release -p quickstart")),
    ("./target/release/untwin --upstream postgres://127.0.0.1:5432 --listen 127.0.0.1:6432", How::Serves),
    (
        "psql postgres://postgres@127.0.0.1:6432/postgres -c \"SELECT 'through untwin'\"",
        How::Ends("through untwin"),
    ),
    ("./target/release/untwin --upstream postgres://127.0.0.1:5432 --mode observe", How::Serves),
    (
        "./target/release/untwin check --upstream postgres://postgres@127.0.0.1:5432/postgres",
        How::Ends("public.ev\n  ev_pkey (id): protected\n"),
    ),
    ("./target/release/untwin log --since 1h", How::Ends("1 record: 1 rekeyed (1 committed).")),
    (
        "./target/release/untwin config show --upstream postgres://127.0.0.1:5432",
        How::Ends("mode = \"rewrite\"\n"),
    ),
    ("./target/release/untwin config schema", How::Ends("\"title\": \"untwin.toml\"")),
    ("./target/release/untwin log", How::Ends("1 record: 1 rekeyed (1 committed).")),
    (
        "./target/release/untwin log --id 11111111-1111-4111-8111-111111111111 --format json",
        How::Ends("\"old\":\"11111111-1111-4111-8111-111111111111\""),
    ),
    (
        "./target/release/untwin check --upstream postgres://postgres@127.0.0.1:5432/postgres --format json",
        How::Ends("\"table\":\"public.ev\""),
    ),
    ("cargo build", How::InTestsRun("cargo test --no-fail-fast")),
    ("tests/run", How::IsTestsRun),
    ("cargo test --lib", How::InTestsRun("cargo test --no-fail-fast")),
    (
        "TEST_DIFFERENTIAL_TRANSACTIONS=100000 cargo test --test integration random_transactions_of_a_new_seed -- --nocapture",
        How::InTestsRun("cargo test --no-fail-fast"),
    ),
];

/// The lines in fences of this language, fence by fence.
pub fn fences(language: &str) -> Vec<String> {
    let mut fences = Vec::new();
    let mut lines = README.lines();
    while let Some(line) = lines.next() {
        let Some(found) = line.strip_prefix("```") else { continue };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if found == language {
            fences.push(inside.join("\n"));
        }
    }
    fences
}

/// Where the commands are run, as if in a clone: with servers of its own in the place of the README's.
struct Place {
    directory: TempDir,
    database: Database,
    serving: Vec<Serving>,
}

/// A command that goes on. Ends when dropped.
struct Serving {
    child: Child,
    banner: String,
    address: SocketAddr,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Place {
    fn journal(&self) -> PathBuf {
        self.directory.path().join("journal.jsonl")
    }

    /// The text with this place's addresses in it.
    fn here(&self, text: &str) -> String {
        let (server, database) = (self.database.address.to_string(), &self.database.name);
        let proxy =
            self.serving.first().map_or("127.0.0.1:0".to_owned(), |serving| serving.address.to_string());
        text.replace("5432/postgres", &format!("5432/{database}"))
            .replace("6432/postgres", &format!("6432/{database}"))
            .replace("127.0.0.1:5432", &server)
            .replace("127.0.0.1:6432", &proxy)
            .replace("./target/release/untwin", &binary().to_string_lossy())
            .replace("psql ", &format!("{} -X ", program::find("psql").display()))
    }

    fn command(&self, line: &str) -> Command {
        let mut command = supervised("sh");
        command.args(["-c", &format!("exec {}", self.here(line))]).current_dir(self.directory.path());
        // For what a line does not say: nobody else's port, nobody else's journal.
        command.env("UNTWIN_LISTEN", "127.0.0.1:0").env("UNTWIN_JOURNAL", self.journal());
        command
    }

    fn run(&mut self, line: &str, how: &How) {
        match how {
            How::Ends(expected) => self.ends(line, expected),
            How::Serves => self.serves(line),
            How::InTestsRun(step) => assert!(TESTS_RUN.contains(step), "{step} is not in tests/run"),
            How::IsTestsRun => {
                let file = std::fs::metadata(Path::new(env!("CARGO_MANIFEST_DIR")).join(line));
                assert_ne!(file.expect("the script is there").permissions().mode() & 0o111, 0);
            }
        }
    }

    fn ends(&self, line: &str, expected: &str) {
        let mut child = self.command(line).spawn().expect("there is a shell");
        // Held open: it ends the command.
        let _stdin = child.stdin.take();
        let output = child.wait_with_output().expect("it was started");
        let (said, faults) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line}: {faults}");
        assert!(said.contains(expected), "{line}: {said}{faults}");
    }

    fn serves(&mut self, line: &str) {
        let mut child = self.command(line).spawn().expect("there is a shell");
        let stdout = child.stdout.take().expect("stdout was piped");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let none = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut serving = Serving { child, banner: String::new(), address: none };
        while serving.banner.lines().count() < 3 {
            let said = receiver.recv_timeout(Duration::from_secs(20));
            let said = said.unwrap_or_else(|error| panic!("{line}: {error}"));
            if let Some(address) = said.strip_prefix("DATABASE_URL=postgres://") {
                serving.address = address.parse().expect("an address");
            }
            serving.banner += &format!("{said}\n");
        }
        self.serving.push(serving);
    }

    /// Leaves a record in the journal.
    fn twins(&self) {
        let Some(Serving { address, .. }) = self.serving.first() else { panic!("nothing serves") };
        let mut client = Wire::connect(*address, &self.database.name);
        client.run(&format!("INSERT INTO ev(id, v) VALUES ('{KEY}', 'a'), ('{KEY}', 'b')"));
        let settled = || std::fs::read_to_string(self.journal()).is_ok_and(|text| text.contains("committed"));
        assert!(eventually(settled), "no fate in the journal");
    }
}

#[test]
fn every_command_does_what_the_readme_says() {
    let directory = TempDir::new().expect("a temporary directory");
    let mut place = Place { directory, database: Database::fresh(EV), serving: Vec::new() };
    let mut known: Vec<&(&str, How)> = COMMANDS.iter().collect();
    for fence in fences("sh") {
        for line in fence.lines().filter(|line| !line.is_empty()) {
            let at = known.iter().position(|(command, _)| *command == line);
            let (_, how) =
                known.remove(at.unwrap_or_else(|| panic!("{line}: say in COMMANDS how it is run")));
            place.run(line, how);
            if place.serving.len() == 1 && matches!(how, How::Serves) {
                place.twins();
            }
        }
    }
    assert_eq!(known.iter().map(|(line, _)| *line).collect::<Vec<_>>(), Vec::<&str>::new(), "not there");
    let shown = fences("text").into_iter().find(|text| text.starts_with("untwin "));
    let journal = place.journal();
    let shown = place
        .here(&shown.expect("the README shows the first lines"))
        .replace("/home/app/.local/state/untwin/journal.jsonl", &journal.to_string_lossy());
    assert_eq!(place.serving[0].banner.trim_end(), shown);
}

#[test]
fn every_configuration_is_accepted() {
    let database = Database::fresh("");
    let authority = Authority::new();
    let issued = authority.issue("untwin", &["localhost"]).cert;
    let root = std::fs::read_to_string(&authority.root).expect("a certificate");
    authority.file("db-ca.crt", &root, 0o644);
    authority.file("users", "\"app\" \"secret\"\n", 0o600);
    let directory = Path::new(&issued).parent().expect("it is in a directory").to_string_lossy().into_owned();
    let configurations = fences("toml");
    assert!(configurations.len() >= 3, "{}", configurations.len());
    for text in configurations {
        let text = text.replace("/etc/untwin", &directory);
        let file = authority.file("untwin.toml", &text, 0o644);
        let url = format!("postgres://{}", database.address);
        let mut show = vec!["config", "show", "--config", &file];
        if !text.contains("upstream =") {
            // An excerpt.
            show.extend(["--upstream", &url]);
        }
        let shown = program::succeed(&binary(), &show, "");
        for line in text.lines().take_while(|line| !line.starts_with('[') && !line.is_empty()) {
            assert!(shown.contains(line), "{line} is not in {shown}");
        }
        let mut proxy = Proxy::of_url(&url, &database.name, &["--config", &file]);
        proxy.signal("TERM");
        assert_eq!(proxy.exit_code(Duration::from_secs(20)), Some(0));
    }
}

#[test]
fn every_setting_is_listed_with_its_default() {
    let schema: Json =
        serde_json::from_str(&program::succeed(&binary(), &["config", "schema"], "")).expect("JSON");
    let properties = schema["properties"].as_object().expect("settings");
    let section = README.split("\n## All settings\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = section.expect("the section").lines().filter_map(|line| line.strip_prefix("| `"));
    let mut listed: Vec<(&str, &str)> = rows
        .filter_map(|row| {
            let (name, rest) = row.split_once("` | ")?;
            Some((name, rest.split_once(" | ")?.0))
        })
        .collect();
    for (name, property) in properties.iter().filter(|(_, property)| property["type"] != "array") {
        let at = listed.iter().position(|(listed, _)| listed == name);
        let (_, shown) = listed.swap_remove(at.unwrap_or_else(|| panic!("{name} is not listed")));
        let default = match &property["default"] {
            Json::Null => continue,
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        assert_eq!(shown, format!("`{default}`"), "{name}");
    }
    assert_eq!(listed, [], "no such settings");
}

#[test]
fn every_metric_is_told_as_it_is_named() {
    let database = Database::fresh(EV);
    let proxy = Proxy::with(&database, &admin::ADMIN);
    let (_, told) = admin::get(admin::address(&proxy), "/metrics");
    let told: Vec<&str> =
        told.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let section = README.split("\n### Monitoring\n").nth(1).and_then(|rest| rest.split("\n### ").next());
    let section = section.expect("the section");
    let named = section.match_indices("untwin_").map(|(at, _)| {
        let rest = &section[at..];
        rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or_default()
    });
    let named: Vec<&str> = named.collect();
    assert!(named.len() > 15, "{named:?}");
    for name in named {
        assert!(told.contains(&name), "{name} is not among {told:?}");
    }
}

#[test]
fn every_alert_can_be_read() {
    let rules: Vec<Json> =
        fences("yaml").iter().map(|text| serde_yaml::from_str(text).expect("YAML")).collect();
    let alerts = rules.iter().filter_map(|file| file["groups"][0]["rules"].as_array()).flatten();
    let told = |alert: &Json| {
        let expression = alert["expr"].as_str().unwrap_or_default();
        alert["alert"].is_string() && expression.contains("untwin_") && expression.contains(" > ")
    };
    let alerts: Vec<&Json> = alerts.collect();
    assert!(alerts.len() > 5 && alerts.iter().all(|alert| told(alert)), "{alerts:?}");
}

#[test]
fn every_link_leads_somewhere() {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-');
    let anchor =
        |title: &str| title.to_lowercase().chars().filter(kept).collect::<String>().trim().replace(' ', "-");
    let headings = README.lines().filter(|line| line.starts_with("##"));
    let anchors: Vec<String> = headings.map(|line| anchor(line.trim_start_matches('#'))).collect();
    let links: Vec<&str> =
        README.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect();
    assert!(links.len() > 10, "{links:?}");
    for link in links {
        let leads = match link.strip_prefix('#') {
            Some(name) => anchors.iter().any(|anchor| anchor == name),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join(link).exists(),
        };
        assert!(leads, "{link}: {anchors:?}");
    }
}
