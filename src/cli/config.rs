//! `untwin config`: the schema, or the settings in force.

use std::io::Write;

use super::Failure;
use super::args::{ConfigArgs, ConfigCommand};
use crate::config::Config;
use crate::config::schema::schema;

pub(super) fn config(arguments: ConfigArgs, out: &mut impl Write) -> Result<(), Failure> {
    let text = match arguments.what {
        ConfigCommand::Schema => serde_json::to_string_pretty(&schema()).map_err(told)? + "\n",
        ConfigCommand::Show(run) => {
            let settings = run.sources().settings()?;
            // What `run` would refuse is refused here too.
            Config::compose(settings.clone())?;
            toml::to_string(&settings).map_err(told)?
        }
    };
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn told(error: impl ToString) -> Failure {
    Failure::Told(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::RunArgs;
    use crate::config::settings::Settings;

    fn show(settings: Settings) -> Result<String, String> {
        let what = ConfigCommand::Show(Box::new(RunArgs { settings, ..RunArgs::default() }));
        let mut out = Vec::new();
        config(ConfigArgs { what }, &mut out).map_err(|failure| failure.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_is_shown_is_what_untwin_would_run_with() {
        let upstream = "postgres://u:secret@h".parse().ok();
        let shown = show(Settings { upstream: upstream.clone(), ..Settings::default() }).unwrap();
        assert!(shown.contains("drain_timeout = \"1m\"") && !shown.contains("secret"), "{shown}");
        let alone = Settings { upstream, auth_file: Some("/users".into()), ..Settings::default() };
        assert!(show(alone).unwrap_err().contains("auth_file"));
        assert!(show(Settings::default()).unwrap_err().starts_with("upstream is not set"));
    }
}
