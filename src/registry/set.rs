//! `--set limits.NAME=VALUE`: a registry with another value of a limit is another version.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::registry::check_limits;
use crate::registry::limits::Limits;
use crate::registry::model::Registry;

/// What stands before the name of a limit in a setting.
pub const PREFIX: &str = "limits.";

impl Registry {
    /// This registry with limits set anew.
    ///
    /// # Errors
    /// One sentence that names the setting: not a limit, not a whole number, or zero where that would stop everything.
    pub fn with_settings(&self, settings: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut registry = self.clone();
        for (key, value) in settings {
            registry.limits = with_limit(&registry.limits, key, value)?;
        }
        if let Some(name) = check_limits::zero_names(&registry.limits).first() {
            return Err(format!("{PREFIX}{name}: 0 would stop everything"));
        }
        Ok(registry.with_version())
    }
}

fn with_limit(limits: &Limits, key: &str, value: &str) -> Result<Limits, String> {
    let name = key.strip_prefix(PREFIX).ok_or_else(|| format!("{key}: not a setting of the registry"))?;
    let number: u64 = value.parse().map_err(|_| format!("{key}: `{value}` is not a whole number"))?;
    let mut fields = serde_json::to_value(limits).unwrap_or_default();
    match fields.get_mut(name) {
        Some(field) => *field = Value::from(number),
        None => return Err(format!("{key}: no limit of that name")),
    }
    serde_json::from_value(fields).map_err(|_| format!("{key}: `{value}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::with_limit;
    use crate::registry::limits::Limits;

    #[test]
    fn a_setting_names_a_limit_and_a_whole_number() {
        let limits = Limits::default();
        assert_eq!(with_limit(&limits, "limits.lateness_ms_max", "0").map(|limits| limits.lateness_ms_max), Ok(0));
        assert!(with_limit(&limits, "limits.no_such_limit", "1").is_err());
        assert!(with_limit(&limits, "limits.lateness_ms_max", "soon").is_err());
        assert!(with_limit(&limits, "limits.runs_per_session_max", "99999999999").is_err());
        assert!(with_limit(&limits, "lateness_ms_max", "1").is_err());
    }
}
