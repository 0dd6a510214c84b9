//! Settings of the process: flag > environment > file > default, each with where it came from.
//!
//! Two stages: values as written ([`model`]) by layer, then one checked [`Resolved`].

pub mod environment;
pub mod file;
pub mod model;
mod problems;
pub mod secret;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::cli::exit::{Exit, Failure};
use model::Settings;
use problems::problems;
use secret::is_secret;

/// The file that is read where no other is named, if it is there.
pub const DEFAULT_FILE: &str = "config/reflex.toml";
/// What stands before the name of a setting in the environment.
pub const ENVIRONMENT_PREFIX: &str = "REFLEX_";

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The file.
    File(PathBuf),
    /// A variable of the environment.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// One value on its way: as text or as TOML.
type Layered = BTreeMap<String, (toml::Value, Source)>;

/// What the command line says about settings.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// Flags of their own: setting, flag, text.
    pub named: Vec<(&'static str, &'static str, String)>,
    /// `--set key=value`.
    pub set: Vec<String>,
}

/// Settings, checked, with where each value came from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The settings.
    pub settings: Settings,
    /// Values by `section.key`, secrets included: for [`Resolved::shown`] only.
    values: BTreeMap<String, toml::Value>,
    sources: BTreeMap<String, Source>,
    /// `limits.NAME` by `--set`: they belong to the registry and make another version of it.
    pub limits: BTreeMap<String, String>,
}

impl Resolved {
    /// Every setting: name, value with secrets masked, source.
    pub fn shown(&self) -> impl Iterator<Item = (&str, toml::Value, &Source)> {
        self.values.iter().map(|(key, value)| {
            let secret = is_secret(key) && value.as_str() != Some("");
            let value = if secret { toml::Value::from(secret::MASK) } else { value.clone() };
            (key.as_str(), value, self.sources.get(key).unwrap_or(&Source::Default))
        })
    }
}

/// Reads all layers and checks the result.
///
/// # Errors
/// Exit 66 for a named file that is missing, 64 for a malformed `--set`, 78 for everything else.
pub fn resolve(
    flags: &Flags,
    environment: impl Iterator<Item = (String, String)>,
    colours: bool,
) -> Result<Resolved, Failure> {
    let environment: BTreeMap<String, String> =
        environment.filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX)).collect();
    let defaults = defaults();
    let mut layered: Layered =
        defaults.iter().map(|(key, value)| (key.clone(), (value.clone(), Source::Default))).collect();
    if let Some(path) = config_file(flags, &environment) {
        for (key, value) in file::read(&path, colours)? {
            layered.insert(key, (value, Source::File(path.clone())));
        }
    }
    for (name, text) in &environment {
        if let Some(key) = setting_of(name, &defaults) {
            put(&mut layered, &defaults, &key, text, Source::Environment(name.clone()))?;
        }
    }
    for (key, flag, text) in &flags.named {
        put(&mut layered, &defaults, key, text, Source::Flag((*flag).to_owned()))?;
    }
    let mut limits = BTreeMap::new();
    for setting in &flags.set {
        let Some((key, text)) = setting.split_once('=') else {
            return Err(Failure::new(Exit::Usage, format_args!("--set {setting}: not key=value")));
        };
        if key.starts_with(crate::registry::set::PREFIX) {
            limits.insert(key.to_owned(), text.to_owned());
        } else {
            put(&mut layered, &defaults, key, text, Source::Flag("--set".to_owned()))?;
        }
    }
    finish(layered, limits)
}

fn config_file(flags: &Flags, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    flags
        .config
        .clone()
        .or_else(|| environment.get("REFLEX_CONFIG").map(PathBuf::from))
        .or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|path| Path::exists(path)))
}

/// Every setting that has a default, by `section.key`.
#[must_use]
pub fn defaults() -> BTreeMap<String, toml::Value> {
    let mut values = BTreeMap::new();
    if let Ok(table) = toml::Table::try_from(Settings::default()) {
        file::flatten("", table, &mut values);
    }
    values
}

/// The variable of a setting.
#[must_use]
pub fn variable(key: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}

/// The setting of a variable. Others that begin alike are not ours: a cluster names services so, for example.
pub fn setting_of(name: &str, defaults: &BTreeMap<String, toml::Value>) -> Option<String> {
    // Properties have dots where a variable cannot.
    if let Some(property) = name.strip_prefix("REFLEX_KAFKA_") {
        // What a cluster tells about a service called reflex-kafka is no property.
        let service = ["SERVICE_", "PORT"].iter().any(|start| property.starts_with(start));
        return (!service).then(|| format!("kafka.{}", property.to_ascii_lowercase().replace('_', ".")));
    }
    if let Some(id) = name.strip_prefix("REFLEX_AVRO_SCHEMA_IDS_") {
        return Some(format!("avro.schema_ids.{id}"));
    }
    defaults.keys().find(|key| variable(key) == *name).cloned()
}

/// Puts a text in, as the type the setting has.
fn put(
    layered: &mut Layered,
    defaults: &BTreeMap<String, toml::Value>,
    key: &str,
    text: &str,
    source: Source,
) -> Result<(), Failure> {
    let exit = exit_of(&source);
    let refuse = |what: &str| Err(Failure::new(exit, format_args!("{key} ({source}): {what}")));
    let value = match defaults.get(key) {
        Some(toml::Value::Integer(_)) => match text.parse::<i64>() {
            Ok(number) => toml::Value::from(number),
            Err(_) => return refuse("not a whole number"),
        },
        Some(toml::Value::Boolean(_)) => match text.parse::<bool>() {
            Ok(yes) => toml::Value::from(yes),
            Err(_) => return refuse("neither true nor false"),
        },
        Some(_) => toml::Value::from(text),
        None if key.starts_with("kafka.") || key.starts_with("avro.schema_ids.") => toml::Value::from(text),
        None => return refuse("no such setting; `reflex config show` lists them"),
    };
    layered.insert(key.to_owned(), (value, source));
    Ok(())
}

/// A value given on the command line is a matter of usage, anywhere else of configuration.
fn exit_of(source: &Source) -> Exit {
    if matches!(source, Source::Flag(_)) { Exit::Usage } else { Exit::Configuration }
}

fn finish(layered: Layered, limits: BTreeMap<String, String>) -> Result<Resolved, Failure> {
    let mut table = toml::Table::new();
    for (key, (value, _)) in &layered {
        insert(&mut table, key, value.clone());
    }
    let settings = serde_path_to_error::deserialize::<_, Settings>(toml::Value::Table(table)).map_err(|error| {
        let path = error.path().to_string();
        let source = layered.get(&path).map(|(_, source)| source);
        let words = source.map_or(String::new(), |source| format!(" ({source})"));
        Failure::new(
            source.map_or(Exit::Configuration, exit_of),
            format_args!("{path}{words}: {}", error.inner().message()),
        )
    })?;
    let (values, sources) =
        layered.into_iter().map(|(key, (value, source))| ((key.clone(), value), (key, source))).unzip();
    let resolved = Resolved { settings, values, sources, limits };
    let problems = problems(&resolved);
    if problems.is_empty() { Ok(resolved) } else { Err(Failure::new(Exit::Configuration, problems.join("\n"))) }
}

/// The names of properties and of schema ids may hold dots themselves; those of settings do not.
fn insert(table: &mut toml::Table, key: &str, value: toml::Value) {
    let (sections, name): (&[&str], &str) = match key.strip_prefix("avro.schema_ids.") {
        Some(id) => (&["avro", "schema_ids"], id),
        None => match key.split_once('.') {
            Some(("topics", name)) => (&["topics"], name),
            Some(("input", name)) => (&["input"], name),
            Some(("avro", name)) => (&["avro"], name),
            Some(("log", name)) => (&["log"], name),
            Some(("kafka", name)) => (&["kafka"], name),
            _ => (&[], key),
        },
    };
    let mut place = table;
    for section in sections {
        let inner = place.entry(*section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let toml::Value::Table(inner) = inner else { return };
        place = inner;
    }
    place.insert(name.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(set: &[&str], environment: &[(&str, &str)]) -> Result<Resolved, Failure> {
        let flags = Flags { set: set.iter().map(|text| (*text).to_owned()).collect(), ..Flags::default() };
        resolve(&flags, environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())), false)
    }

    #[test]
    fn the_file_that_is_shipped_holds_every_setting_with_its_default_and_a_comment() {
        let text = std::fs::read_to_string(DEFAULT_FILE).expect("the file");
        let values = file::parse(&text, DEFAULT_FILE, false).expect("valid");
        assert_eq!(values, defaults());
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ") && !line.starts_with('#'))
        {
            assert!(index > 0 && lines[index - 1].starts_with("# "), "no comment above: {line}");
        }
    }

    #[test]
    fn two_uses_of_one_topic_are_refused() {
        let words = |set: &[&str]| resolved(set, &[]).map(|_| ()).map_err(|failure| failure.message);
        let same = words(&["topics.audit=reflex.events"]).expect_err("refused");
        assert!(same.contains("the same topic as topics.audit"), "{same}");
        assert!(words(&["topics.overrides=reflex.events.dlq"]).is_err());
        assert!(words(&["topics.overrides="]).is_err());
        assert!(words(&["topics.overrides=.."]).is_err());
        assert_eq!(words(&["topics.overrides=mine.overrides"]), Ok(()));
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_default() {
        let environment =
            [("REFLEX_GROUP", "from-env"), ("REFLEX_TOPICS_EVENTS", "events"), ("REFLEX_KAFKA_SERVICE_PORT", "1")];
        let resolved = resolved(&["group=from-flag", "kafka.sasl.username=me"], &environment).expect("valid");
        assert_eq!(resolved.settings.group, "from-flag");
        assert_eq!(resolved.settings.topics.events, "events");
        assert_eq!(resolved.settings.kafka.0["sasl.username"], "me");
        let source =
            |key: &str| resolved.shown().find(|(name, ..)| *name == key).map(|(_, _, source)| source.to_string());
        assert_eq!(source("group").as_deref(), Some("flag --set"));
        assert_eq!(source("topics.events").as_deref(), Some("environment REFLEX_TOPICS_EVENTS"));
    }

    #[test]
    fn secrets_are_masked_in_what_is_shown_and_in_debug() {
        let resolved = resolved(&[], &[("REFLEX_KAFKA_SASL_PASSWORD", "hunter2")]).expect("valid");
        assert_eq!(resolved.settings.kafka.0["sasl.password"], "hunter2");
        let shown: Vec<String> = resolved.shown().map(|(key, value, _)| format!("{key}={value}")).collect();
        assert!(shown.contains(&format!("kafka.sasl.password=\"{}\"", secret::MASK)), "{shown:?}");
        assert!(!format!("{:?}", resolved.settings).contains("hunter2"));
    }

    #[test]
    fn what_cannot_be_is_refused_all_at_once_with_the_reason() {
        let set = ["workers=0", "kafka.enable.auto.commit=true", "kafka.isolation.level=read_uncommitted", "group=a/b"];
        let failure = resolved(&set, &[]).expect_err("refused");
        assert_eq!(failure.exit, Exit::Configuration);
        for part in
            ["workers (flag --set)", "offsets are committed in the transaction only", "isolation.level", "group"]
        {
            assert!(failure.message.contains(part), "{part}: {}", failure.message);
        }
    }

    #[test]
    fn fewer_places_for_those_who_wait_need_no_other_setting_changed() {
        let words = |set: &[&str]| resolved(set, &[]).map(|_| ()).map_err(|failure| failure.message);
        assert_eq!(words(&["http_waiting_max=100"]), Ok(()));
        assert!(words(&["http_waiting_per_client_max=0"]).is_err());
    }

    #[test]
    fn unknown_settings_and_wrong_types_name_the_setting_and_its_source() {
        let failure = resolved(&["grupo=x"], &[]).expect_err("unknown");
        assert!(failure.message.starts_with("grupo (flag --set): no such setting"), "{}", failure.message);
        let failure = resolved(&[], &[("REFLEX_WORKERS", "many")]).expect_err("no number");
        assert!(
            failure.message.starts_with("workers (environment REFLEX_WORKERS): not a whole"),
            "{}",
            failure.message
        );
        let failure = resolved(&["output=xml"], &[]).expect_err("no such word");
        assert!(failure.message.starts_with("output (flag --set): unknown variant"), "{}", failure.message);
        assert_eq!(resolved(&["novalue"], &[]).expect_err("no value").exit, Exit::Usage);
    }

    #[test]
    fn limits_are_kept_for_the_registry() {
        let resolved = resolved(&["limits.lateness_ms_max=0"], &[]).expect("valid");
        assert_eq!(resolved.limits["limits.lateness_ms_max"], "0");
    }
}
