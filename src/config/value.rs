//! Values of settings and how they are spelled: sizes, periods, levels. Pure.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a value of a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(pub(super) String);

/// Gives a type that is spelled as text the traits of a setting: in a file it is a string, or a whole
/// number where `$number` has an example of one.
macro_rules! setting {
    ($setting:ident, $about:literal $(, number: $number:literal)?) => {
        impl serde::Serialize for $setting {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $setting {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $setting;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($about)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$setting, E> {
                        text.parse().map_err(E::custom)
                    }

                    $(fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<$setting, E> {
                        const _: i64 = $number;
                        number.to_string().parse().map_err(E::custom)
                    })?
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl schemars::JsonSchema for $setting {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($setting).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let types = ["string", $({ const _: i64 = $number; "integer" })?];
                schemars::json_schema!({ "type": types, "description": $about })
            }
        }
    };
}
pub(super) use setting;

/// Gives a `struct List(pub Vec<Item>)` of at least one item the traits of a setting: text separated by commas,
/// or in a file a list.
macro_rules! list_setting {
    ($setting:ident, $item:ident, $about:literal) => {
        impl std::str::FromStr for $setting {
            type Err = BadValue;

            fn from_str(text: &str) -> Result<Self, BadValue> {
                text.split(',').map(|item| item.trim().parse()).collect::<Result<_, _>>().map(Self)
            }
        }

        impl std::fmt::Display for $setting {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let items: Vec<_> = self.0.iter().map($item::to_string).collect();
                f.write_str(&items.join(","))
            }
        }

        impl serde::Serialize for $setting {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $setting {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct TextOrList;
                impl<'de> serde::de::Visitor<'de> for TextOrList {
                    type Value = $setting;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($about)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$setting, E> {
                        text.parse().map_err(E::custom)
                    }

                    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<$setting, A::Error> {
                        let mut items = Vec::new();
                        while let Some(item) = list.next_element()? {
                            items.push(item);
                        }
                        if items.is_empty() {
                            return Err(serde::de::Error::invalid_length(0, &self));
                        }
                        Ok($setting(items))
                    }
                }
                deserializer.deserialize_any(TextOrList)
            }
        }

        impl schemars::JsonSchema for $setting {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($setting).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": ["string", "array"], "items": { "type": "string" }, "description": $about })
            }
        }
    };
}
pub(super) use list_setting;

/// A number of bytes, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// Each unit with its number of bytes, the largest first.
const SIZES: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

setting!(Size, "a size: `64MiB`, `256MB`, or a number of bytes", number: 67108864);

impl FromStr for Size {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad =
            || BadValue(format!("`{text}` is no size: write `64MiB`, `256MB`, or a number of bytes above 0"));
        measure(text, SIZES, 1).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, bytes) = largest_unit(self.0, SIZES).unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

/// A length of time, more than none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

/// Each unit with its number of milliseconds, the largest first.
const PERIODS: &[(&str, u64)] =
    &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

setting!(Period, "a length of time: `10s`, `1m`, or a number of seconds", number: 60);

impl FromStr for Period {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = || {
            BadValue(format!(
                "`{text}` is no length of time: write `500ms`, `10s`, `5m`, `2h`, `3d`, or a number of seconds above 0"
            ))
        };
        measure(text, PERIODS, 1_000).map(|millis| Self(Duration::from_millis(millis))).ok_or_else(bad)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (unit, factor) = largest_unit(millis, PERIODS).unwrap_or(("ms", 1));
        write!(f, "{}{unit}", millis / factor)
    }
}

/// Reads a whole number above 0 and its unit (in any case); without one, a number of `plain`.
fn measure(text: &str, units: &[(&str, u64)], plain: u64) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = unit.trim_start();
    let factor = match unit {
        "" => plain,
        _ => units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|&value| value > 0)
}

/// The largest unit that measures the value without a remainder.
fn largest_unit<'a>(value: u64, units: &[(&'a str, u64)]) -> Option<(&'a str, u64)> {
    units.iter().copied().find(|(_, factor)| value.is_multiple_of(*factor))
}

/// Permissions of a file, as `chmod` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u32);

setting!(FileMode, "permissions in octal digits: `0777`, `0770`");

impl FromStr for FileMode {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|&mode| mode <= 0o777 && !text.starts_with('+'));
        mode.map(Self).ok_or_else(|| {
            BadValue(format!("`{text}` are no permissions: write octal digits such as `0777` or `0770`"))
        })
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

/// How many of something, at least one. Unlike text, a number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Count(pub NonZeroUsize);

impl FromStr for Count {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let bad = |_| BadValue(format!("`{text}` is no number of at least 1"));
        text.parse().map(Self).map_err(bad)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::deserialize(deserializer)?.to_string().parse().map_err(serde::de::Error::custom)
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Who finds out whether a client is who it says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// The server; the proxy relays.
    Relay,
    /// The proxy, by its own file of users.
    Terminate,
}

/// Which log lines are written: a level, or directives such as `info,untwin::proxy=debug`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLevel {
    text: String,
    /// The level of each part of the program.
    pub targets: tracing_subscriber::filter::Targets,
}

setting!(LogLevel, "off, error, warn, info, debug, trace, or directives such as `info,untwin::proxy=debug`");

impl FromStr for LogLevel {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let lower = text.to_ascii_lowercase();
        let directives = match lower.as_str() {
            // Libraries speak up only when something is wrong: they know nothing of what must not be logged.
            "info" | "debug" | "trace" => format!("warn,untwin={lower}"),
            _ => lower,
        };
        let bad =
            || BadValue(format!("`{text}` is no log level: write off, error, warn, info, debug or trace"));
        if !directives.split(',').all(|part| part.contains('=') || is_level(part)) {
            return Err(bad());
        }
        let targets = directives.parse().map_err(|_| bad())?;
        Ok(Self { text: text.to_owned(), targets })
    }
}

/// A bare word that is no level would be read as the name of a target.
fn is_level(word: &str) -> bool {
    ["off", "error", "warn", "info", "debug", "trace"].contains(&word)
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes, shown) in [
            ("64MiB", 64 << 20, "64MiB"),
            ("256MB", 256_000_000, "256MB"),
            ("1 GiB", 1 << 30, "1GiB"),
            ("1024", 1024, "1KiB"),
            ("7", 7, "7B"),
            ("3kb", 3000, "3kB"),
            ("1048577", 1_048_577, "1048577B"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, shown), "{text}");
            assert_eq!(shown.parse(), Ok(size));
        }
        for text in ["", "0", "0MiB", "-1", "1.5GiB", "MiB", "64M", "64 MiB x", "99999999999GiB", "é"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn periods() {
        for (text, millis, shown) in [
            ("10s", 10_000, "10s"),
            ("1m", 60_000, "1m"),
            ("90", 90_000, "90s"),
            ("500ms", 500, "500ms"),
            ("2h", 7_200_000, "2h"),
            ("3d", 259_200_000, "3d"),
            ("60", 60_000, "1m"),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!((period.0.as_millis(), period.to_string().as_str()), (millis, shown), "{text}");
            assert_eq!(shown.parse(), Ok(period));
        }
        for text in ["", "0", "0s", "-1s", "s", "1w", "1.5s", "1m30s", "99999999999999999999"] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }

    #[test]
    fn counts() {
        assert_eq!("3".parse(), Ok(Count(NonZeroUsize::MIN.saturating_add(2))));
        for text in ["", "0", "-1", "1.5", "many", "99999999999999999999"] {
            let error = text.parse::<Count>().unwrap_err().to_string();
            assert_eq!(error, format!("`{text}` is no number of at least 1"));
        }
    }

    #[test]
    fn file_modes() {
        for (text, mode, shown) in [("0777", 0o777, "0777"), ("770", 0o770, "0770"), ("0", 0, "0000")] {
            let read: FileMode = text.parse().unwrap();
            assert_eq!((read.0, read.to_string().as_str()), (mode, shown), "{text}");
        }
        for text in ["", "8", "1777", "+7", "-7", "rwx", "0o777", "77777777777777"] {
            assert!(text.parse::<FileMode>().is_err(), "{text}");
        }
    }

    #[test]
    fn log_levels() {
        use tracing_subscriber::filter::LevelFilter as L;
        for (text, ours, others) in [
            ("info", L::INFO, L::WARN),
            ("TRACE", L::TRACE, L::WARN),
            ("error", L::ERROR, L::ERROR),
            ("off", L::OFF, L::OFF),
            ("warn,untwin=debug", L::DEBUG, L::WARN),
        ] {
            let level: LogLevel = text.parse().unwrap();
            let of = |target: &str| {
                let enabled = |l: &L| l.into_level().is_none_or(|l| level.targets.would_enable(target, &l));
                [L::TRACE, L::DEBUG, L::INFO, L::WARN, L::ERROR, L::OFF].into_iter().find(enabled)
            };
            assert_eq!((of("untwin::proxy"), of("tokio_postgres")), (Some(ours), Some(others)), "{text}");
        }
        for text in ["", "loud", "info,", "untwin=loud", "loud,info"] {
            assert!(text.parse::<LogLevel>().is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_shown_reads_back(value in 1u64..1 << 50) {
            proptest::prop_assert_eq!(Size(value).to_string().parse(), Ok(Size(value)));
            let period = Period(Duration::from_millis(value));
            proptest::prop_assert_eq!(period.to_string().parse(), Ok(period));
        }

        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = (text.parse::<Size>(), text.parse::<Period>(), text.parse::<LogLevel>());
        }
    }
}
