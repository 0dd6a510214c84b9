//! The registry: what is refused, what is doubtful, what a version is, who answers a signature.

#![allow(clippy::disallowed_methods, clippy::expect_used, reason = "tests read fixtures and may panic")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use reflex::record::event::Route;
use reflex::record::signature::Signature;
use reflex::registry::{
    Defaults, Glob, Limits, Loaded, Problem, Registry, ShapePatterns, SourceFile, load, load_and_lint,
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn folder(path: &Path) -> Vec<SourceFile> {
    let entries = fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| SourceFile {
            name: path.file_name().expect("a name").to_string_lossy().into_owned(),
            text: fs::read_to_string(&path).expect("text"),
        })
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

fn shipped() -> Vec<SourceFile> {
    folder(&root().join("config/registry"))
}

fn one(text: &str) -> Vec<SourceFile> {
    vec![SourceFile { name: "one.toml".to_owned(), text: text.to_owned() }]
}

fn loaded(files: &[SourceFile]) -> Loaded {
    load(files).unwrap_or_else(|problems| panic!("{}", render(&problems)))
}

fn registry(text: &str) -> Registry {
    loaded(&one(text)).registry
}

/// One problem: its line, the source line, and the mark under it.
fn render(problems: &[Problem]) -> String {
    let mut text = String::new();
    for problem in problems {
        let mark = format!("{}{}", " ".repeat(problem.column - 1), "^".repeat(problem.length));
        writeln!(text, "{problem}\n  | {}\n  | {mark}", problem.snippet).expect("to a string");
    }
    text
}

/// Each folder of `tests/registry/bad` is a registry; `expected.txt` is every problem of it, and one of them has the
/// code that the folder is named after (up to a dash). `UPDATE_EXPECTED=1` writes what is found: read the difference.
#[test]
fn every_bad_registry_is_reported_with_file_line_column_and_text() {
    let bad = root().join("tests/registry/bad");
    let mut folders: Vec<_> = fs::read_dir(&bad).expect("there").map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    let mut differences = String::new();
    for path in folders {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let found = match load_and_lint(&folder(&path)) {
            Ok(loaded) => loaded.warnings,
            Err(problems) => problems,
        };
        let code = name.split('-').next().unwrap_or_default();
        assert!(
            found.iter().any(|problem| problem.code == code),
            "{name}: no problem of that code\n{}",
            render(&found)
        );
        let expected = path.join("expected.txt");
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            fs::write(&expected, render(&found)).expect("written");
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        if render(&found) != wanted {
            write!(differences, "--- {name}: wanted\n{wanted}--- found\n{}", render(&found)).expect("to a string");
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn five_errors_in_three_files_are_reported_at_once() {
    let path = root().join("tests/registry/bad/syntax-five-in-three-files");
    let problems = load(&folder(&path)).expect_err("five errors");
    let places: Vec<_> = problems.iter().map(|problem| (problem.file.as_str(), problem.line)).collect();
    assert_eq!(places, [("a.toml", 2), ("a.toml", 5), ("b.toml", 3), ("b.toml", 10), ("c.toml", 5)]);
}

#[test]
fn a_pattern_that_names_every_node_names_none_in_particular() {
    let text = "[[signal]]\ncode = \"s\"\nowner = \"team\"\nmatch = { node = \"*\" }\n\
                [[response]]\nname = \"r\"\nsignal = \"s\"\nscope = \"session\"\nschema_ref = \"d:1\"\nentry_point = \"a\"\n\
                [[graph]]\nname = \"g\"\nversion = \"1\"\nentry_points = [\"a\"]\n\
                [[graph]]\nname = \"d\"\nversion = \"1\"\nentry_points = [\"a\"]\n";
    let loaded = load_and_lint(&one(text)).unwrap_or_else(|problems| panic!("{}", render(&problems)));
    assert!(loaded.warnings.is_empty(), "{}", render(&loaded.warnings));
}

#[test]
fn errors_hide_no_warnings_of_the_same_stage_and_order_is_by_place() {
    let text = "[[response]]\nname = \"r\"\nsignal = \"no\"\nscope = \"session\"\nschema_ref = \"x\"\nttl = \"9d\"\n";
    let problems = load(&one(text)).expect_err("three errors");
    let found: Vec<_> = problems.iter().map(|problem| (problem.line, problem.code)).collect();
    assert_eq!(found, [(3, "unknown_reference"), (5, "bad_schema_ref"), (6, "bad_ttl")]);
}

#[test]
fn the_shipped_registry_has_no_problem() {
    let loaded = load_and_lint(&shipped()).unwrap_or_else(|problems| panic!("{}", render(&problems)));
    assert!(loaded.warnings.is_empty(), "{}", render(&loaded.warnings));
    assert!(loaded.registry.shapes.len() <= 30, "{} shape rules", loaded.registry.shapes.len());
}

#[test]
fn shipped_shape_rules_give_the_canonical_names_and_only_those() {
    let names: BTreeSet<_> = loaded(&shipped()).registry.shapes.into_iter().map(|rule| rule.name).collect();
    let canonical = "model_output_validation_error tool_args_invalid tool_unknown tool_error tool_soft_error \
                     tool_timeout node_timeout model_timeout step_limit_reached budget_exhausted token_limit_exceeded \
                     provider_rate_limited provider_quota_exhausted provider_overloaded provider_auth_failed \
                     provider_context_exceeded provider_server_error provider_connection_failed model_refusal \
                     content_filtered guardrail_tripped graph_contract_violated cancelled lease_lost";
    assert_eq!(names, canonical.split_whitespace().map(String::from).collect());
}

#[test]
fn shipped_defaults_are_complete_and_equal_the_defaults_of_the_code() {
    let files: Vec<_> = shipped().into_iter().filter(|file| file.name == "defaults.toml").collect();
    let registry = loaded(&files).registry;
    assert_eq!(registry.limits, Limits::default());
    assert_eq!(registry.defaults, Defaults::default());
    let written: toml::Table = files[0].text.parse().expect("TOML");
    let fields = serde_json::to_value(Limits::default()).expect("JSON");
    let fields: Vec<_> = fields.as_object().expect("an object").keys().collect();
    let limits = written["limits"].as_table().expect("a table");
    assert_eq!(limits.keys().collect::<Vec<_>>(), fields, "every limit is written out");
    assert_eq!(written["defaults"].as_table().expect("a table").len(), 3);
}

/// Changes only with the shipped files or with the canonical form; the latter would give every registry in use a new
/// version.
#[test]
fn the_version_of_the_shipped_registry_is_stable() {
    assert_eq!(loaded(&shipped()).registry.version, "f7b36d11575ed05867a051ec40b83a3f");
}

#[test]
fn the_version_does_not_depend_on_comments_blanks_names_or_number_of_files() {
    let files = shipped();
    let version = loaded(&files).registry.version;
    let noisy: Vec<_> = files
        .iter()
        .map(|file| SourceFile {
            name: format!("9-{}", file.name),
            text: format!("# a comment\n\n{}\n# the end\n", file.text.replace(" = ", "   =  ")),
        })
        .collect();
    assert_eq!(loaded(&noisy).registry.version, version);
    let whole: String = files.iter().map(|file| file.text.clone() + "\n").collect();
    assert_eq!(registry(&whole).version, version);
    let file =
        |name: &str, code: &str| SourceFile { name: name.into(), text: format!("[[signal]]\ncode = \"{code}\"\n") };
    let [a, b] = [file("a.toml", "first"), file("b.toml", "second")];
    let by_name = loaded(&[b, a]).registry;
    assert_eq!(by_name.signals[0].code, "first", "order is that of the names");
}

#[test]
fn the_version_does_not_depend_on_the_order_of_what_is_only_looked_up() {
    let a = "[[graph]]\nname = \"g\"\nversion = \"1\"\nentry_points = [\"a\", \"b\"]\nedges = [[\"a\", \"b\"], [\"b\", \"c\"]]\n\
             [[graph]]\nname = \"h\"\nversion = \"1\"\n[[recovery_policy]]\nname = \"p\"\n[[recovery_policy]]\nname = \"q\"\n";
    let b = "[[graph]]\nname = \"h\"\nversion = \"1\"\nexpected_runs_per_hour = 7\n[[recovery_policy]]\nname = \"q\"\n\
             [[recovery_policy]]\nname = \"p\"\nminimum_probes = 200\n[[graph]]\nname = \"g\"\nversion = \"1\"\n\
             edges = [[\"b\", \"c\"], [\"a\", \"b\"]]\nentry_points = [\"b\", \"a\"]\n";
    assert_eq!(registry(a).version, registry(b).version);
}

#[test]
fn the_version_changes_with_the_meaning() {
    let first = "[[signal]]\ncode = \"a\"\n[[signal]]\ncode = \"b\"\n";
    let versions: BTreeSet<_> = [
        first,
        "[[signal]]\ncode = \"b\"\n[[signal]]\ncode = \"a\"\n",
        "[[signal]]\ncode = \"a\"\ngraph = \"g\"\n[[signal]]\ncode = \"b\"\n",
        "[limits]\nshapes_per_run_max = 255\n[[signal]]\ncode = \"a\"\n[[signal]]\ncode = \"b\"\n",
        "[[shape]]\nname = \"s\"\nwhen = { code = [\"1\"] }\n[[shape]]\nname = \"t\"\nwhen = { code = [\"1\"] }\n",
        "[[shape]]\nname = \"t\"\nwhen = { code = [\"1\"] }\n[[shape]]\nname = \"s\"\nwhen = { code = [\"1\"] }\n",
        "[[shape]]\nname = \"t\"\nmatch = { code = [\"1\"] }\n[[shape]]\nname = \"s\"\nwhen = { code = [\"1\"] }\n",
    ]
    .iter()
    .map(|text| registry(text).version)
    .collect();
    assert_eq!(versions.len(), 7);
    assert!(versions.iter().all(|version| version.len() == 32));
}

#[test]
fn the_canonical_json_reads_back_to_the_same_registry() {
    let registry = loaded(&shipped()).registry;
    let json = registry.canonical_json();
    assert!(!json.contains("null"), "fields that are not there are left out");
    assert_eq!(Registry::from_json(&json).expect("its own form"), registry);
}

#[test]
fn the_largest_numbers_do_not_empty_the_canonical_json() {
    let text = "[limits]\nreaction_age_ms_max = 9_223_372_036_854_775_807\n";
    let json = registry(text).canonical_json();
    assert!(json.contains("reaction_age_ms_max"), "{json}");
}

fn signature(node: &str, shape: &str) -> Signature {
    Signature {
        node: (!node.is_empty()).then(|| node.to_owned()),
        failure_shape: shape.to_owned(),
        retry_budget_exhausted: true,
        required_artifact_present: None,
        scope: "session".to_owned(),
    }
}

#[test]
fn the_signal_with_most_fields_wins_then_the_first_written() {
    let registry = registry(
        "[[signal]]\ncode = \"any\"\n\
         [[signal]]\ncode = \"node\"\nmatch = { node = \"n\" }\n\
         [[signal]]\ncode = \"shape\"\nmatch = { failure_shape = \"tool_error:*\" }\n\
         [[signal]]\ncode = \"both\"\nmatch = { node = \"n\", failure_shape = \"tool_error:x\" }\n\
         [[signal]]\ncode = \"artifact\"\nmatch = { node = \"m\", required_artifact_present = false }\n\
         [[signal]]\ncode = \"graph\"\ngraph = \"g*\"\nmatch = { node = \"o\", retry_budget_exhausted = true }\n",
    );
    let code = |graph: &str, node: &str, shape: &str| {
        registry.signal_for(graph, &signature(node, shape)).map(|signal| signal.code.as_str())
    };
    assert_eq!(code("g", "n", "tool_error:x"), Some("both"));
    assert_eq!(code("g", "n", "tool_error:y"), Some("node"), "of two with one field the first written");
    assert_eq!(code("g", "", "tool_error:y"), Some("shape"));
    assert_eq!(code("g", "", "cancelled"), Some("any"), "a pattern never matches a missing node");
    assert_eq!(code("g", "m", "cancelled"), Some("any"), "no artifact is registered: null is neither true nor false");
    assert_eq!(code("graph", "o", "cancelled"), Some("graph"));
    assert_eq!(code("other", "o", "cancelled"), Some("any"));
}

#[test]
fn a_response_without_a_route_answers_every_route_but_degraded() {
    let response = |name: &str, more: &str| {
        format!("[[response]]\nname = \"{name}\"\nsignal = \"s\"\nscope = \"session\"\nkind = \"pause\"\n{more}\n")
    };
    let signal = "[[signal]]\ncode = \"s\"\n";
    let answer =
        |text: &str, route: &Route| registry(text).session_response("s", route).map(|response| response.name.clone());
    let cohort = "[[response]]\nname = \"c\"\nsignal = \"s\"\nscope = \"cohort\"\nkind = \"pause\"\n";
    let any = [signal, cohort, &response("any", ""), &response("later", "")].concat();
    assert_eq!(answer(&any, &Route::Primary).as_deref(), Some("any"), "the first written, and of scope session");
    assert_eq!(answer(&any, &Route::Trial).as_deref(), Some("any"));
    assert_eq!(answer(&any, &Route::Degraded), None);
    let both = [signal, &response("any", ""), &response("chained", "on_route = \"degraded\"")].concat();
    assert_eq!(answer(&both, &Route::Degraded).as_deref(), Some("chained"));
    assert_eq!(answer(&both, &Route::Primary).as_deref(), Some("any"));
    let trial = [signal, &response("any", ""), &response("trial", "on_route = \"trial\"")].concat();
    assert_eq!(answer(&trial, &Route::Trial).as_deref(), Some("trial"), "exactly this route first");
}

#[test]
fn what_is_not_written_has_the_stated_defaults() {
    let registry = registry(
        "[[signal]]\ncode = \"s\"\nmatch = { scope = \"session\" }\nrecurrence = { sessions = 9 }\n\
         [[response]]\nname = \"r\"\nsignal = \"s\"\nscope = \"cohort\"\nschema_ref = \"g:1\"\n\
         [[recovery_policy]]\nname = \"p\"\nmaximum_failure_rate = 2\n\
         [[graph]]\nname = \"g\"\nversion = \"1\"\nentry_points = [\"a\"]\nedges = [[\"a\", \"b\"]]\nnodes = [{ name = \"c\" }]\n",
    );
    let signal = &registry.signals[0];
    assert_eq!((signal.owner.as_str(), signal.mode), ("", reflex::registry::Mode::Act));
    let recurrence = signal.recurrence.as_ref().expect("written");
    assert_eq!((recurrence.sessions, recurrence.tenants, recurrence.dimensions.len()), (9, 2, 4));
    let response = &registry.responses[0];
    assert_eq!(response.ttl.as_secs(), 86_400);
    assert_eq!(response.kind.as_str(), "replace");
    let radius = response.blast_radius.expect("a cohort has one");
    assert_eq!(
        (radius.automatic_percentage.to_string(), radius.approval_percentage.to_string()),
        ("5".into(), "25".into())
    );
    let policy = &registry.recovery_policies[0];
    assert_eq!(policy.trial_percentages, [5.0, 10.0, 25.0, 50.0, 100.0]);
    assert_eq!(
        (policy.minimum_probes, policy.window_duration.as_secs(), policy.stable_after.as_secs()),
        (200, 600, 300)
    );
    let graph = &registry.graphs["g:1"];
    assert!(graph.active);
    assert_eq!(graph.nodes.keys().collect::<Vec<_>>(), ["a", "b", "c"], "nodes of edges and entry points are implied");
}

/// The shape of a failure with one error, by the shipped rules; the session stage does the same for whole chains.
fn shape(rules: &Registry, event_type: &str, class: &str, code: &str) -> String {
    let last = class.rsplit(['.', ':', '/', '\\']).next().unwrap_or_default();
    let status = code.strip_prefix("http_").unwrap_or(code);
    let is_status = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
    let family = format!("{}xx", &status[..status.len().min(1)]);
    let any = |globs: &[Glob], facts: &[&str]| globs.iter().any(|glob| facts.iter().any(|fact| glob.matches(fact)));
    let lists = |patterns: &ShapePatterns| {
        [
            (patterns.event_type.is_empty(), any(&patterns.event_type, &[event_type])),
            (patterns.class.is_empty(), !class.is_empty() && any(&patterns.class, &[class, last])),
            (patterns.code.is_empty(), !code.is_empty() && any(&patterns.code, &[code])),
            (patterns.http.is_empty(), is_status && any(&patterns.http, &[status, &family])),
        ]
    };
    let rule = rules.shapes.iter().find(|rule| {
        rule.any.as_ref().is_none_or(|any| lists(any).into_iter().any(|(_, matched)| matched))
            && rule.all.as_ref().is_none_or(|all| lists(all).into_iter().all(|(empty, matched)| empty || matched))
    });
    rule.map_or_else(|| "app_error".to_owned(), |rule| rule.name.clone())
}

#[test]
fn shipped_shape_rules_tell_the_errors_of_known_runtimes_apart() {
    let rules = loaded(&shipped()).registry;
    let rows = "\
        node_failed                    pydantic_core._pydantic_core.ValidationError  ast_decoder           model_output_validation_error
        node_failed                    langchain_core.exceptions.OutputParserException -                   model_output_validation_error
        model_output_validation_failed -                                             -                     model_output_validation_error
        model_output_validation_failed -                                             no_such_function      tool_unknown
        model_output_validation_failed JSONDecodeError                               json_arguments        tool_args_invalid
        tool_call_failed               pydantic.ValidationError                      -                     tool_error
        tool_call_failed               ToolError                                     -                     tool_error
        tool_call_failed               pydantic_ai.exceptions.ToolFailed             -                     tool_soft_error
        tool_call_failed               -                                             tool_message_error    tool_soft_error
        tool_call_failed               agents.exceptions.ToolTimeoutError            -                     tool_timeout
        tool_call_failed               builtins.TimeoutError                         -                     tool_timeout
        tool_call_failed               -                                             exit_124              tool_timeout
        tool_call_failed               requests.exceptions.ConnectionError           exit_1                tool_error
        tool_call_failed               -                                             http_429              tool_error
        tool_call_failed               github.RateLimitError                         -                     tool_error
        tool_call_failed               openai.RateLimitError                         429                   provider_rate_limited
        model_call_failed              ModelHTTPError                                429                   provider_rate_limited
        model_call_failed              ModelHTTPError                                402                   provider_quota_exhausted
        model_call_failed              openai.RateLimitError                         insufficient_quota    provider_quota_exhausted
        model_call_failed              -                                             503                   provider_overloaded
        model_call_failed              -                                             529                   provider_overloaded
        model_call_failed              -                                             504                   model_timeout
        model_call_failed              -                                             http_500              provider_server_error
        model_call_failed              -                                             401                   provider_auth_failed
        model_call_failed              openai.BadRequestError                        400                   app_error
        model_call_failed              openai.BadRequestError                        context_length_exceeded provider_context_exceeded
        model_call_failed              builtins.ConnectionError                      -                     provider_connection_failed
        model_call_failed              asyncio.TimeoutError                          -                     model_timeout
        node_failed                    builtins.ConnectionError                      -                     app_error
        node_failed                    -                                             429                   app_error
        node_failed                    openai._exceptions.RateLimitError             429                   provider_rate_limited
        node_failed                    langchain_core.exceptions.ModelRateLimitError -                     provider_rate_limited
        node_failed                    openai.APITimeoutError                        -                     model_timeout
        node_failed                    openai.APIConnectionError                     -                     provider_connection_failed
        node_failed                    anthropic.OverloadedError                     529                   provider_overloaded
        node_failed                    anthropic.AuthenticationError                 401                   provider_auth_failed
        node_failed                    langgraph.errors.NodeTimeoutError             -                     node_timeout
        node_failed                    temporalio.exceptions.TimeoutError            START_TO_CLOSE        node_timeout
        graph_failed                   langgraph.errors.GraphRecursionError          GRAPH_RECURSION_LIMIT step_limit_reached
        graph_failed                   agents.exceptions.MaxTurnsExceeded            -                     step_limit_reached
        graph_failed                   pydantic_ai.exceptions.UsageLimitExceeded     -                     budget_exhausted
        node_failed                    pydantic_ai.exceptions.IncompleteToolCall     -                     token_limit_exceeded
        node_failed                    langgraph.errors.InvalidUpdateError           INVALID_CONCURRENT_GRAPH_UPDATE graph_contract_violated
        graph_failed                   InputGuardrailTripwireTriggered               -                     guardrail_tripped
        model_call_failed              ContentFilterError                            -                     content_filtered
        model_call_failed              langchain_core.exceptions.ModelRefusalError   -                     model_refusal
        node_failed                    AI_NoSuchToolError                            -                     tool_unknown
        node_failed                    AI_NoObjectGeneratedError                     -                     model_output_validation_error
        node_failed                    langgraph.prebuilt.ToolInvocationError        -                     tool_args_invalid
        tool_call_cancelled            -                                             -                     cancelled
        node_failed                    langgraph.errors.NodeCancelledError           -                     cancelled
        lease_lost                     -                                             -                     lease_lost
        node_failed                    builtins.ValueError                           -                     app_error
        stuck                          -                                             -                     app_error";
    for row in rows.lines() {
        let cells: Vec<_> = row.split_whitespace().map(|cell| if cell == "-" { "" } else { cell }).collect();
        assert_eq!(shape(&rules, cells[0], cells[1], cells[2]), cells[3], "{row}");
    }
}
