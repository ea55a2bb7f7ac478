//! The files that untwin is deployed by: they can be read, say only what untwin understands, and their probes and
//! limits of time fit.

use std::process::Command;
use std::time::Duration;

use serde_json::Value as Json;

use crate::support::proxy::{binary, supervised};
use crate::support::{Database, Proxy, admin, program};

const DOCKERFILE: &str = include_str!("../../Dockerfile");
const COMPOSE: &str = include_str!("../../docker-compose.yml");
const MANIFEST: &str = include_str!("../../deploy/kubernetes-sidecar.yaml");
const UNIT: &str = include_str!("../../deploy/untwin.service");

/// How long untwin may take to end, with its defaults: `drain_timeout`, and farewells.
const END: u64 = 60 + 10;

fn yaml(text: &str) -> Json {
    serde_yaml::from_str(text).expect("YAML")
}

/// Names and values of variables, where a file gives them to untwin.
fn variables() -> Vec<(&'static str, String, String)> {
    let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let docker = DOCKERFILE.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    let unit = UNIT.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
    let compose = yaml(COMPOSE)["services"]["untwin"]["environment"].clone();
    let manifest = sidecar()["env"].clone();
    let compose = compose.as_object().into_iter().flatten();
    let manifest = manifest.as_array().into_iter().flatten();
    let text = |value: &Json| value.as_str().expect("a text").to_owned();
    let all = [
        ("Dockerfile", docker.map(|(name, value)| owned(name, value)).collect::<Vec<_>>()),
        ("untwin.service", unit.map(|(name, value)| owned(name, value)).collect()),
        ("docker-compose.yml", compose.map(|(name, value)| (name.clone(), text(value))).collect()),
        ("kubernetes-sidecar.yaml", manifest.map(|one| (text(&one["name"]), text(&one["value"]))).collect()),
    ];
    let named = |(file, found): (&'static str, Vec<(String, String)>)| {
        found.into_iter().map(move |(name, value)| (file, name, value))
    };
    all.into_iter().flat_map(named).collect()
}

fn pod() -> Json {
    yaml(MANIFEST)["spec"]["template"]["spec"].clone()
}

fn sidecar() -> Json {
    let pod = pod();
    let mut beside = pod["initContainers"].as_array().expect("containers").iter();
    beside.find(|container| container["name"] == "untwin").expect("untwin").clone()
}

/// A length of time as these files write it.
fn seconds(text: &str) -> u64 {
    text.trim_end_matches('s').parse().expect("seconds")
}

#[test]
fn every_variable_is_a_setting_with_a_good_value() {
    let ours: Vec<_> = variables().into_iter().filter(|(_, name, _)| name.starts_with("UNTWIN_")).collect();
    assert!(ours.len() > 7, "{ours:?}");
    for (file, name, value) in ours {
        let mut show = supervised(binary());
        show.args(["config", "show", "--upstream", "postgres://127.0.0.1"]).env(&name, &value);
        let mut child = show.spawn().expect("the binary starts");
        // Held open: its end is the binary's.
        let _stdin = child.stdin.take();
        let output = child.wait_with_output().expect("it was started");
        assert!(output.status.success(), "{file}: {name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_option_of_the_unit_is_one() {
    let help = program::succeed(&binary(), &["run", "--help"], "");
    let start = UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let options: Vec<&str> = start.split(' ').filter(|word| word.starts_with("--")).collect();
    assert_eq!(options, ["--config"]);
    options.iter().for_each(|option| assert!(help.contains(&format!("{option} ")), "{option}"));
}

#[test]
fn untwin_is_given_the_time_that_its_end_takes() {
    let grace = yaml(COMPOSE)["services"]["untwin"]["stop_grace_period"].clone();
    assert!(seconds(grace.as_str().expect("a time")) > END);
    assert!(pod()["terminationGracePeriodSeconds"].as_u64().expect("seconds") > END);
    let unit = UNIT.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).expect("a time");
    assert!(seconds(unit) > END);
}

#[test]
fn the_probes_of_the_manifest_are_answered() {
    let sidecar = sidecar();
    assert_eq!(sidecar["restartPolicy"], "Always");
    let listen = sidecar["env"].as_array().into_iter().flatten();
    let listen =
        listen.filter(|one| one["name"] == "UNTWIN_ADMIN_LISTEN").find_map(|one| one["value"].as_str());
    let port = sidecar["ports"].as_array().expect("ports").iter().find(|port| port["name"] == "metrics");
    assert_eq!(listen.map(str::to_owned), port.map(|port| format!("0.0.0.0:{}", port["containerPort"])));

    let database = Database::fresh("");
    let proxy = Proxy::with(&database, &admin::ADMIN);
    for (probe, path) in
        [("startupProbe", "/readyz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/livez")]
    {
        let asked = &sidecar[probe]["httpGet"];
        assert_eq!(
            (asked["path"].as_str(), asked["port"].as_str()),
            (Some(path), Some("metrics")),
            "{probe}"
        );
        assert_eq!(admin::get(admin::address(&proxy), path).0, 200);
    }
}

#[test]
fn the_image_is_healthy_while_clients_are_welcome() {
    let check = DOCKERFILE.lines().find_map(|line| line.trim_start().strip_prefix("CMD ")).expect("a check");
    let words: Vec<String> = serde_json::from_str(check).expect("a JSON array");
    let [shell, flag, command] = &words[..] else { panic!("{words:?}") };
    let database = Database::fresh("");
    let mut proxy = Proxy::with(&database, &[&admin::ADMIN[..], &["--drain-delay", "1h"]].concat());
    let port = admin::address(&proxy).port().to_string();
    assert!(command.contains("/9632"));
    let healthy = || {
        let mut check = Command::new("timeout");
        check.args(["3", shell, flag, &command.replace("/9632", &format!("/{port}"))]);
        check.output().expect("there is a shell").status.success()
    };
    assert!(healthy());
    proxy.signal("TERM");
    assert!(crate::support::eventually(|| !healthy()));
    proxy.signal("INT");
    assert_eq!(proxy.exit_code(Duration::from_secs(20)), Some(0));
    assert!(!healthy());
}
