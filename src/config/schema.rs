//! The JSON schema of `untwin.toml`, made from the settings themselves. Pure.

use schemars::transform::{Transform, transform_subschemas};
use schemars::{Schema, schema_for};
use serde_json::Value;

use super::settings::Settings;

/// The schema, with each setting's default but those that depend on the machine.
#[must_use]
pub fn schema() -> Schema {
    let mut schema = schema_for!(Settings);
    WithoutNull.transform(&mut schema);
    let defaults = Settings { journal: None, workers: None, ..Settings::defaults() };
    let defaults = serde_json::to_value(defaults).unwrap_or_default();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return schema;
    };
    for (setting, property) in properties {
        let default = defaults.get(setting).filter(|default| !default.is_null());
        if let (Some(default), Some(property)) = (default, property.as_object_mut()) {
            property.insert("default".to_owned(), default.clone());
        }
    }
    schema
}

/// A setting is left out, never null: TOML has no null.
struct WithoutNull;

impl Transform for WithoutNull {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        if let Some(any) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
            any.retain(|one| one.get("type").is_none_or(|name| name != "null"));
            if let [Value::Object(only)] = &mut any[..] {
                let mut only = std::mem::take(only);
                schema.remove("anyOf");
                schema.ensure_object().append(&mut only);
            }
        }
        transform_subschemas(self, schema);
    }
}
