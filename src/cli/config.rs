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
