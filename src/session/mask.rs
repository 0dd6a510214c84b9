//! Masked messages: what is left of free text when everything that varies from one occurrence to the next is gone.
//!
//! The rules, in this order: (a) literals in braces, (b) quoted text, (c) words that
//! hold a digit, `_`, `/` or `\`.

/// Most characters of a line that are looked at.
const LINE_CHARS_MAX: usize = 1_000;
/// Most characters of a masked message.
const MASKED_CHARS_MAX: usize = 80;

/// The first non-blank line of a message without ANSI escapes, trimmed, at most 1 000 characters.
#[must_use]
pub fn first_line(message: &str) -> Option<String> {
    message.lines().flat_map(|line| line.split('\r')).find_map(|line| {
        let plain: String = without_escapes(line).take(LINE_CHARS_MAX).collect();
        let plain = plain.trim();
        (!plain.is_empty()).then(|| plain.to_owned())
    })
}

/// Masks one line and cuts it at 80 characters; `None` where nothing is left.
#[must_use]
pub fn mask(line: &str) -> Option<String> {
    let chars: Vec<char> = line.chars().take(LINE_CHARS_MAX).collect();
    let masked = mask_words(&mask_quoted(&mask_literals(&chars)));
    let spaced = masked.iter().collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = merge_stars(&spaced).chars().take(MASKED_CHARS_MAX).collect();
    let cut = cut.trim_end();
    (!cut.is_empty()).then(|| cut.to_owned())
}

/// Drops CSI sequences (`ESC [ … final byte`), OSC sequences and lone escapes.
fn without_escapes(line: &str) -> impl Iterator<Item = char> + '_ {
    let mut chars = line.chars().peekable();
    std::iter::from_fn(move || {
        loop {
            match chars.next()? {
                '\u{1b}' => match chars.next() {
                    Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                    Some(']') => while chars.next().is_some_and(|c| c != '\u{7}' && c != '\u{1b}') {},
                    _ => {}
                },
                c => return Some(c),
            }
        }
    })
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"' | '`')
}

fn is_bracket(c: char) -> bool {
    matches!(c, '(' | ')' | '[' | ']' | '{' | '}')
}

/// (a): a `{` or `[` right before a quote or bracket, up to its partner or the end.
fn mask_literals(chars: &[char]) -> Vec<char> {
    let mut out = Vec::with_capacity(chars.len());
    let mut at = 0;
    while at < chars.len() {
        let opens = matches!(chars[at], '{' | '[') && chars.get(at + 1).is_some_and(|&c| is_quote(c) || is_bracket(c));
        if opens {
            out.push('*');
            at = after_partner(chars, at);
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// Index behind the bracket that closes the one at `open`.
fn after_partner(chars: &[char], open: usize) -> usize {
    let (opening, closing) = if chars[open] == '{' { ('{', '}') } else { ('[', ']') };
    let mut depth = 0_usize;
    for (at, &c) in chars.iter().enumerate().skip(open) {
        if c == opening {
            depth += 1;
        } else if c == closing {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    chars.len()
}

/// (b): quoted text with no letter or digit before the opening and none after the closing quote.
fn mask_quoted(chars: &[char]) -> Vec<char> {
    let mut out: Vec<char> = Vec::with_capacity(chars.len());
    // A quote without a closing partner has none further on either: do not search for it again.
    let mut unclosed: Vec<char> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let opens = is_quote(c) && !unclosed.contains(&c) && (at == 0 || !chars[at - 1].is_alphanumeric());
        let closing = if opens {
            (at + 1..chars.len())
                .find(|&end| chars[end] == c && chars.get(end + 1).is_none_or(|c| !c.is_alphanumeric()))
        } else {
            None
        };
        // Of a line that was cut the closing quote may be missing: what is quoted is not shown for that.
        let closing = closing.or_else(|| (opens && chars.len() >= LINE_CHARS_MAX).then(|| chars.len() - 1));
        if let Some(end) = closing {
            out.push('*');
            at = end + 1;
        } else {
            if opens {
                unclosed.push(c);
            }
            out.push(c);
            at += 1;
        }
    }
    out
}

/// (c): words that hold a digit, `_`, `/` or `\`, less trailing punctuation.
fn mask_words(chars: &[char]) -> Vec<char> {
    let mut out = Vec::with_capacity(chars.len());
    let mut at = 0;
    while at < chars.len() {
        let end = word_end(chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        let word = &chars[at..end];
        let kept =
            word.iter().rposition(|c| !matches!(c, '.' | ':' | '!' | '?' | ',' | ';')).map_or(0, |last| last + 1);
        let varies = word[..kept].iter().any(|&c| c.is_numeric() || matches!(c, '_' | '/' | '\\'));
        if varies {
            out.push('*');
            out.extend(&word[kept..]);
        } else {
            out.extend(word);
        }
        at = end;
    }
    out
}

/// A word ends at white space, a quote, a bracket or one of `,;=|`; after a slash those four belong to it.
fn word_end(chars: &[char], start: usize) -> usize {
    let mut slash = false;
    for (at, &c) in chars.iter().enumerate().skip(start) {
        let ends = c.is_whitespace() || is_quote(c) || is_bracket(c) || (!slash && matches!(c, ',' | ';' | '=' | '|'));
        if ends {
            return at;
        }
        slash |= c == '/';
    }
    chars.len()
}

/// `*`s with only ` ,:|.-` between them become one.
fn merge_stars(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut between = String::new();
    let mut after_star = false;
    for c in text.chars() {
        match c {
            '*' if after_star => between.clear(),
            '*' => {
                out.push('*');
                after_star = true;
            }
            ' ' | ',' | ':' | '|' | '.' | '-' if after_star => between.push(c),
            _ => {
                out.push_str(&between);
                between.clear();
                out.push(c);
                after_star = false;
            }
        }
    }
    out.push_str(&between);
    out
}

#[cfg(test)]
mod tests {
    use super::{first_line, mask};

    fn masked(line: &str) -> String {
        mask(line).unwrap_or_default()
    }

    #[test]
    fn what_varies_becomes_a_star() {
        let cases = [
            ("flight HAT030 not available on date 2024-05-13", "flight * not available on date *"),
            ("name 'june_2022' is not defined", "name * is not defined"),
            ("can't open, won't retry", "can't open, won't retry"),
            ("Error code: 400 - {'error': {'code': 'x'}} end", "Error code: * end"),
            ("[[1, 2], [3]] tail", "* tail"),
            ("[columns] stay", "[columns] stay"),
            ("{'never closed", "*"),
            ("request invalid, data error. status_code=500", "request invalid, data error. *=*"),
            ("see https://a.example/x?y=1,z=2|3; then go", "see *; then go"),
            ("path C:\\temp\\file gone", "path * gone"),
            ("took 30.5s.", "took *."),
            ("a   b\tc", "a b c"),
            ("1, 2: 3 | 4 . 5 - 6 x", "* x"),
            ("it's 'it's' fine", "it's * fine"),
        ];
        for (line, expected) in cases {
            assert_eq!(masked(line), expected, "{line}");
        }
    }

    #[test]
    fn only_the_first_line_counts_and_it_is_cut() {
        assert_eq!(first_line("\n \u{1b}[31m \n\u{1b}[1mboom\u{1b}[0m \nrest").as_deref(), Some("boom"));
        assert_eq!(first_line(" \r\n\t"), None);
        assert_eq!(masked(&"x".repeat(5_000)).chars().count(), 80);
        let cut_within_quotes = format!("q \"{}\" tail", "secret".repeat(300));
        assert_eq!(masked(&cut_within_quotes), "q *", "the closing quote is behind the cut");
        assert_eq!(first_line(&"y".repeat(5_000)).map(|line| line.len()), Some(1_000));
    }
}
