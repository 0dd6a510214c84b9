//! Just enough of Rust's grammar to look at code: comments and text apart, tokens, paths, functions.

/// The source with comments as blanks and the inside of text as quotes; lines stay where they are.
pub fn code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while !rest.is_empty() {
        let (kind, length) = piece(rest);
        let (piece, tail) = rest.split_at(length);
        match kind {
            Kind::Code => out.push_str(piece),
            Kind::Comment => out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' })),
            Kind::Text => out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { '"' })),
        }
        rest = tail;
    }
    out
}

enum Kind {
    Code,
    Comment,
    Text,
}

fn piece(rest: &str) -> (Kind, usize) {
    let first = rest.chars().next().map_or(1, char::len_utf8);
    if rest.starts_with("//") {
        (Kind::Comment, rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (Kind::Comment, block_comment(rest))
    } else if let Some(length) = raw_text(rest) {
        (Kind::Text, length)
    } else if rest.starts_with('"') {
        (Kind::Text, plain_text(rest, '"'))
    } else if let Some(length) = character(rest) {
        (Kind::Text, length)
    } else {
        (Kind::Code, first)
    }
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn raw_text(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |found| found + end.len());
    Some(1 + hashes + 1 + length)
}

fn plain_text(rest: &str, quote: char) -> usize {
    let mut escaped = true;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('\'')?;
    let first = after.chars().next()?;
    let closed = after[first.len_utf8()..].starts_with('\'');
    (first == '\\' || closed).then(|| plain_text(rest, '\''))
}

/// Code with its test modules as blank lines.
pub fn without_tests(code: &str) -> String {
    let tests = test_lines(code);
    let lines = code.lines().zip(tests).map(|(line, test)| if test { "" } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// For each line of `code`: whether it belongs to an item under `#[cfg(test)]`.
pub fn test_lines(code: &str) -> Vec<bool> {
    let mut tests = vec![false; code.lines().count()];
    for (start, _) in code.match_indices("#[cfg(test)]").chain(code.match_indices("#[cfg(all(test")) {
        let end = item_end(code, start);
        let (first, last) = (line_of(code, start), line_of(code, end));
        tests[first - 1..last].fill(true);
    }
    tests
}

/// The byte at which the item that begins at `start` ends: its closing brace or semicolon.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return start + at,
            '}' => depth -= 1,
            ';' if depth == 0 => return start + at,
            _ => {}
        }
    }
    code.len().saturating_sub(1)
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// A word, `::` or another single character, with its line from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token<'a> {
    pub line: usize,
    pub text: &'a str,
}

impl Token<'_> {
    pub fn is_word(&self) -> bool {
        self.text.chars().all(|c| c.is_alphanumeric() || c == '_')
    }
}

pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length = if rest.starts_with("::") { 2 } else { word.max(first.len_utf8()) };
            let (text, tail) = rest.split_at(length);
            tokens.push(Token { line: number + 1, text });
            rest = tail.trim_start();
        }
    }
    tokens
}

/// Every path of the code with its line, groups written out: `a::{b, c::d}` is `a::b` and `a::c::d`.
pub fn paths(code: &str) -> Vec<(usize, String)> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let joined = tokens.get(at + 1).is_some_and(|next| next.text == "::");
        at = if tokens[at].is_word() && joined { expand(&tokens, at, "", &mut found) } else { at + 1 };
    }
    found
}

/// Writes out the path that goes on at token `at`; returns the token after it.
fn expand(tokens: &[Token], at: usize, before: &str, found: &mut Vec<(usize, String)>) -> usize {
    let text_at = |at: usize| tokens.get(at).map_or("", |token| token.text);
    if text_at(at) == "{" {
        return expand_group(tokens, at + 1, before, found);
    }
    let separator = if before.is_empty() { "" } else { "::" };
    let path = format!("{before}{separator}{}", text_at(at));
    let next = tokens.get(at + 2);
    let goes_on = text_at(at + 1) == "::" && next.is_some_and(|next| next.is_word() || "{*".contains(next.text));
    if goes_on {
        return expand(tokens, at + 2, &path, found);
    }
    found.push((tokens[at].line, path));
    at + 1
}

fn expand_group(tokens: &[Token], mut at: usize, before: &str, found: &mut Vec<(usize, String)>) -> usize {
    while let Some(token) = tokens.get(at) {
        at = match token.text {
            "}" => return at + 1,
            "," => at + 1,
            "as" => at + 2,
            _ => expand(tokens, at, before, found),
        };
    }
    at
}

/// A function with a body.
pub struct Function<'a> {
    pub name: &'a str,
    pub line: usize,
    /// Whether `#[test]` stands before it.
    pub is_test: bool,
    /// The tokens between its braces.
    pub body: Vec<Token<'a>>,
    /// Lines between its braces that are neither blank nor comment.
    pub lines: usize,
}

pub fn functions(code: &str) -> Vec<Function<'_>> {
    let tokens = tokens(code);
    let starts = (0..tokens.len()).filter(|at| tokens[*at].text == "fn");
    starts.filter_map(|at| function(code, &tokens, at)).collect()
}

fn function<'a>(code: &'a str, tokens: &[Token<'a>], at: usize) -> Option<Function<'a>> {
    let name = tokens.get(at + 1).filter(|token| token.is_word())?;
    let open = body_open(tokens, at)?;
    let close = matching(tokens, open);
    let (first, last) = (tokens[open].line, tokens.get(close).map_or(usize::MAX, |token| token.line));
    let lines = code.lines().take(last.saturating_sub(1)).skip(first).filter(|line| !line.trim().is_empty());
    let before = &tokens[at.saturating_sub(12)..at];
    let is_test = before.windows(4).any(|four| four.iter().map(|token| token.text).eq(["#", "[", "test", "]"]));
    let body = tokens[open + 1..close.min(tokens.len())].to_vec();
    Some(Function { name: name.text, line: tokens[at].line, is_test, body, lines: lines.count() })
}

/// The opening brace of a function's body; `None` where it has none.
fn body_open(tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "{" if depth == 0 => return Some(index),
            ";" if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn matching(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_i32;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        depth += i32::from(token.text == "{") - i32::from(token.text == "}");
        if depth == 0 {
            return index;
        }
    }
    tokens.len()
}

#[test]
fn comments_and_text_are_told_from_code() {
    let source =
        "let a = \"x\\\"//\"; // b::c\nlet d = r#\"e\"f\"#; /* g /* h */ i */ let j: &'k str = 'l';\nlet m = '\\'';";
    let seen: String = code(source).replace(['"', ' '], "");
    assert_eq!(seen, "leta=;\nletd=;letj:&'kstr=;\nletm=;");
}

#[test]
fn test_modules_are_left_out() {
    let source = "mod a {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nuse d;\nfn e() {}";
    assert_eq!(without_tests(source), "mod a {}\n\n\n\n\nfn c() {}\n\n\nfn e() {}");
}

#[test]
fn paths_are_written_out() {
    let source = "use a::{b, c::{d, e as f}, g::*};\nlet x = ::h::i::<j>(k::l);";
    let found: Vec<String> = paths(source).into_iter().map(|(line, path)| format!("{line} {path}")).collect();
    assert_eq!(found, ["1 a::b", "1 a::c::d", "1 a::c::e", "1 a::g::*", "2 h::i", "2 k::l"]);
}

#[test]
fn functions_are_measured_without_blanks() {
    let source =
        "trait T { fn a(); }\n#[test]\nfn b(c: [u8; 2]) -> u8 {\n\n  let d = |e: fn(u8)| {\n  };\n  return 1;\n}";
    let found: Vec<_> = functions(source).iter().map(|f| (f.name.to_owned(), f.line, f.lines, f.is_test)).collect();
    assert_eq!(found, [("b".to_owned(), 3, 3, true)]);
}
