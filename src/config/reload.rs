//! What a configuration that is read again can change while untwin runs, and what it cannot. Pure.

use super::settings::Settings;

/// Settings that sessions follow from their next transaction on.
const AT_RUN_TIME: &[&str] = &[
    "mode",
    "name_based",
    "identical_rows",
    "ambiguous",
    "returning",
    "max_statement_bytes",
    "max_transaction_key_bytes",
    "max_total_key_bytes",
    "catalog_ttl",
    "database",
    "user",
    "application",
    "table",
];

/// The names of settings that differ and need a new start to take effect.
#[must_use]
pub fn needs_restart(running: &Settings, read: &Settings) -> Vec<String> {
    let values = |settings| serde_json::to_value(settings).unwrap_or_default();
    let (running, read) = (values(running), values(read));
    let names = running.as_object().into_iter().flat_map(serde_json::Map::keys);
    let differs = |name: &&String| running.get(*name) != read.get(*name);
    names.filter(|name| !AT_RUN_TIME.contains(&name.as_str())).filter(differs).cloned().collect()
}

/// Whether sessions have to follow something else from their next transaction on.
#[must_use]
pub fn changes_sessions(before: &Settings, after: &Settings) -> bool {
    let values = |settings| serde_json::to_value(settings).unwrap_or_default();
    let (before, after) = (values(before), values(after));
    AT_RUN_TIME.iter().any(|&name| before.get(name) != after.get(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_change_at_run_time_are_named() {
        let settings = |text: &str| toml::from_str::<Settings>(text).unwrap().over(Settings::defaults());
        let running = settings("upstream = 'h:1'\nmode = 'strict'\nworkers = 1");
        for (text, expected) in [
            ("upstream = 'h:1'\nworkers = 1", vec![]),
            ("upstream = 'h:1'\nworkers = 1\nmax_statement_bytes = '1MiB'\n[[table]]\nname = 'a.b'", vec![]),
            (
                "upstream = 'h:2'\nworkers = 2\nlisten = '127.0.0.1:7'\njournal = '/j'",
                vec!["journal", "listen", "upstream", "workers"],
            ),
        ] {
            let mut named = needs_restart(&running, &settings(text));
            named.sort_unstable();
            assert_eq!(named, expected, "{text}");
        }
        assert_eq!(needs_restart(&running, &running), Vec::<String>::new());
    }

    #[test]
    fn what_sessions_follow_is_told_from_what_they_do_not() {
        let settings = |text: &str| toml::from_str::<Settings>(text).unwrap().over(Settings::defaults());
        let running = settings("mode = 'strict'");
        for (text, changes) in [
            ("mode = 'strict'", false),
            ("mode = 'strict'\nlog_level = 'debug'", false),
            ("mode = 'observe'", true),
            ("mode = 'strict'\n[[table]]\nname = 'a.b'", true),
        ] {
            assert_eq!(changes_sessions(&running, &settings(text)), changes, "{text}");
        }
    }

    #[test]
    fn every_name_is_that_of_a_setting() {
        let settings = serde_json::to_value(crate::config::schema::schema()).unwrap();
        for name in AT_RUN_TIME {
            assert!(settings["properties"].get(name).is_some(), "{name}");
        }
    }
}
