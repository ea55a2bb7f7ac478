//! Counters as text for Prometheus (exposition format 0.0.4). Pure.

use crate::live::counters::{Kind, Reading, Sample};
use std::fmt::Write;

/// The type of the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// In front of every name.
const PREFIX: &str = "untwin_";

/// All readings, and which untwin this is.
pub(super) fn text(readings: &[Reading]) -> String {
    let mut text = String::with_capacity(8 << 10);
    let version = Sample { labels: vec![("version", env!("CARGO_PKG_VERSION"))], value: 1 };
    let build = Reading {
        name: "build_info",
        about: "Which untwin this is.",
        kind: Kind::Gauge,
        samples: vec![version],
    };
    for reading in readings.iter().chain([&build]) {
        // Writing to a String never fails.
        let _ = metric(reading, &mut text);
    }
    text
}

fn metric(reading: &Reading, text: &mut String) -> std::fmt::Result {
    let Reading { name, about, kind, samples } = reading;
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    writeln!(text, "# HELP {PREFIX}{name} {}", escaped(about, false))?;
    writeln!(text, "# TYPE {PREFIX}{name} {kind}")?;
    for Sample { labels, value } in samples {
        write!(text, "{PREFIX}{name}")?;
        for (at, (label, content)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            write!(text, "{before}{label}=\"{}\"", escaped(content, true))?;
        }
        writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" })?;
    }
    Ok(())
}

/// A backslash and a line's end stand escaped everywhere, a quote only in the value of a label.
fn escaped(text: &str, quotes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if quotes => escaped.push_str("\\\""),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::counters::Counters;
    use std::collections::HashSet;

    #[test]
    fn a_metric_is_its_help_its_type_and_its_samples() {
        let sample =
            |labels: &[(&'static str, &'static str)], value| Sample { labels: labels.to_vec(), value };
        let reading = Reading {
            name: "twins_total",
            about: "A \\ and a \"quote\",\non two lines.",
            kind: Kind::Counter,
            samples: vec![
                sample(&[], 7),
                sample(&[("action", "forwarded"), ("reason", "a \"b\" \\ c\nd")], u64::MAX),
            ],
        };
        let mut text = String::new();
        metric(&reading, &mut text).unwrap();
        let expected = [
            r#"# HELP untwin_twins_total A \\ and a "quote",\non two lines."#,
            "# TYPE untwin_twins_total counter",
            "untwin_twins_total 7",
            r#"untwin_twins_total{action="forwarded",reason="a \"b\" \\ c\nd"} 18446744073709551615"#,
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_counter_is_shown_once_under_a_name_that_tells_its_kind() {
        let counters = Counters::default();
        counters.uninspected_total.increment("MERGE");
        let text = text(&counters.readings());
        let mut kinds = HashSet::new();
        for (name, kind) in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
            assert!(kinds.insert(name), "{name} is there twice");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        }
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let series: HashSet<&str> =
            samples.iter().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
        assert_eq!(series.len(), samples.len());
        assert!(series.contains(r#"untwin_inserts_total{result="inspected",reason=""}"#), "{text}");
        assert!(series.contains(r#"untwin_inserts_total{result="forwarded",reason="MERGE"}"#), "{text}");
        assert!(text.ends_with(concat!(
            "untwin_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"} 1\n"
        )));
    }
}
