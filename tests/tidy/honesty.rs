//! Tests do not pass by not running: a test never returns early, and no helper of tests turns a missing variable of
//! the environment into a quiet end.

use crate::assert_none;
use crate::source::{self, Token};
use crate::tree::{self, File};

fn violations(file: &File) -> Vec<String> {
    let code = source::code(&file.text);
    let tests = source::test_lines(&code);
    let mut found = Vec::new();
    for function in source::functions(&code) {
        let in_tests = file.is_test() || tests.get(function.line - 1) == Some(&true);
        let Some(line) = quiet_return(&function.body).filter(|_| in_tests) else { continue };
        let problem = match (function.is_test, reads_environment(&function.body)) {
            (true, _) => "a test that returns early passes without having tested: panic with what is missing",
            (false, true) => "a missing variable ends this quietly: panic with what is missing, or return a value",
            (false, false) => continue,
        };
        found.push(format!("{}:{line}: `{}`: {problem}", file.path, function.name));
    }
    found
}

/// The line of a `return` without a value, or with `Ok(())`.
fn quiet_return(body: &[Token]) -> Option<usize> {
    let texts: Vec<&str> = body.iter().map(|token| token.text).collect();
    let quiet = |rest: &[&str]| matches!(rest, [";" | "}" | ",", ..] | ["Ok", "(", "(", ")", ")", ..] | []);
    let found = texts.iter().enumerate().find(|(at, text)| **text == "return" && quiet(&texts[at + 1..]));
    found.map(|(at, _)| body[at].line)
}

fn reads_environment(body: &[Token]) -> bool {
    let call = |three: &[Token]| three[0].text == "env" && three[1].text == "::" && three[2].text.starts_with("var");
    body.windows(3).any(call) || body.iter().any(|token| token.text == "option_env")
}

#[test]
fn tests_are_never_skipped_silently() {
    let found: Vec<String> = tree::rust_files().iter().flat_map(violations).collect();
    assert_none("A test that cannot run fails and says what to install or set; it never passes.", &found);
}

#[test]
fn a_planted_skip_is_found() {
    let found = |text: &str| violations(&File::planted("tests/a.rs", text)).len();
    assert_eq!(found("#[test]\nfn a() {\n  let Ok(b) = std::env::var(\"B\") else { return };\n  c(b);\n}"), 1);
    assert_eq!(found("#[test]\nfn a() -> Result<(), E> { if b() { return Ok(()); } c() }"), 1);
    assert_eq!(found("fn a() { if std::env::var_os(\"B\").is_none() { return; } c(); }"), 1);
    assert_eq!(found("fn a() -> Option<B> { let b = std::env::var(\"B\").ok()?; return Some(b); }"), 0);
    assert_eq!(found("#[test]\nfn a() { let b = std::env::var(\"B\").expect(\"set B\"); c(b); }"), 0);
    assert_eq!(found("fn a() { for b in c() { if d(b) { return; } } }"), 0);
    let inside = "#[cfg(test)]\nmod tests {\n  #[test]\n  fn a() { if b() { return; } }\n}";
    assert_eq!(violations(&File::planted("src/a.rs", inside)).len(), 1);
    assert_eq!(violations(&File::planted("src/a.rs", "fn a() { if env::var(\"B\").is_err() { return; } }")).len(), 0);
}
