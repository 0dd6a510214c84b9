//! Who may do what: bearer tokens with roles, from a file that holds their hashes.
//!
//! ```toml
//! [[token]]
//! name = "refund-runtime"                 # the author of its commands, and its name where it is counted
//! roles = ["runtime"]                     # runtime, viewer, operator, approver
//! blake3 = "…64 hex digits…"              # `reflex token NAME --role ROLE` makes one
//! expires_at = "2027-01-01T00:00:00Z"     # may be left out
//! ```
//!
//! Tokens are random, so a fast hash is enough; hashes are compared in constant time, all of them. Every role may read. A
//! file that changes is read again; one that cannot be used then leaves the tokens before it in force.
//! Without a file, those who reach a loopback address may read and publish; nobody may decide.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use serde::Deserialize;

use crate::engine::shown::watch::wall;
use crate::record::time::Timestamp;
use crate::serve::ServeError;
use crate::serve::problem::Problem;

/// Largest file of tokens; over: refused.
const FILE_BYTES_MAX: u64 = 1_048_576;
/// Most tokens; over: refused. Each is held against what a request bears.
const TOKENS_MAX: usize = 1000;
/// Longest token; over: not known.
const TOKEN_BYTES_MAX: usize = 512;
const NAME_CHARS_MAX: usize = 100;
/// The file is looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const GONE: Stamp = (0, 0, 0, 0);

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An agent runtime: reads and publishes events.
    Runtime,
    /// Reads.
    Viewer,
    /// Lifts, freezes, unfreezes, forces, denies.
    Operator,
    /// Approves and rejects.
    Approver,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The name of the token; none: no tokens are set.
    pub name: Option<Arc<str>>,
    roles: Arc<[Role]>,
}

impl Actor {
    /// Whether one of its roles is this one.
    ///
    /// # Errors
    /// 403.
    pub fn needs(&self, role: Role, what: &str) -> Result<(), Problem> {
        if self.roles.contains(&role) {
            return Ok(());
        }
        Err(Problem::forbidden(format!("{what} needs a token with the role {}", format!("{role:?}").to_lowercase())))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    roles: Vec<Role>,
    blake3: String,
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    #[serde(default)]
    token: Vec<Written>,
}

#[derive(Clone, Debug)]
struct Token {
    hash: blake3::Hash,
    expires_at: Option<Timestamp>,
    actor: Actor,
}

/// Who may ask at all.
#[derive(Debug)]
pub enum Access {
    /// Who has a token.
    Tokens(TokenFile),
    /// Everybody, to read and to publish.
    Open,
    /// Nobody: no tokens are set, and others than this machine can ask.
    Closed,
}

/// The tokens of a file, as it was last read.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: Arc<[Token]>,
    stamp: Stamp,
    looked: Instant,
}

/// Tells one content of a file from the next: inode, length, time of the last change in nanoseconds.
type Stamp = (u64, u64, i64, i64);

impl Access {
    /// Who may ask a service at an address. `file`: of tokens; empty: none. `open`: without tokens, whoever reaches the
    /// address may read and publish.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn new(file: &str, open: bool, is_loopback: bool) -> Result<Self, ServeError> {
        if !file.is_empty() {
            let refused = |words: String| ServeError::Tokens { path: file.to_owned(), words };
            return Ok(Self::Tokens(TokenFile::open(Path::new(file)).map_err(refused)?));
        }
        Ok(if open || is_loopback { Self::Open } else { Self::Closed })
    }

    /// Who sent this.
    ///
    /// # Errors
    /// 401 without a token that is known; 403 where there are none.
    pub fn actor(&self, headers: &HeaderMap) -> Result<Actor, Problem> {
        match self {
            Self::Tokens(file) => actor_of(&file.tokens(), headers),
            Self::Open => Ok(Actor { name: None, roles: [Role::Runtime, Role::Viewer].into() }),
            Self::Closed => Err(Problem::forbidden(
                "no tokens are set (http_tokens), and this service is not bound to loopback; http_open opens it to everybody",
            )),
        }
    }
}

impl TokenFile {
    fn open(path: &Path) -> Result<Self, String> {
        let (tokens, stamp) = read(path)?;
        let state = State { tokens, stamp, looked: Instant::now() };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// The tokens in force; looks after the file now and then.
    fn tokens(&self) -> Arc<[Token]> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK_EVERY {
            state.looked = Instant::now();
            let stamp = std::fs::metadata(&self.path).map_or(GONE, |metadata| stamp(&metadata));
            if stamp != state.stamp {
                // Told once, whatever comes of it.
                state.stamp = stamp;
                match read(&self.path) {
                    Ok((tokens, stamp)) => {
                        tracing::info!(tokens = tokens.len(), "http_tokens is read again");
                        state.tokens = tokens;
                        state.stamp = stamp;
                    }
                    Err(words) => {
                        tracing::error!(words, "http_tokens: not read again, the tokens before stay in force");
                    }
                }
            }
        }
        Arc::clone(&state.tokens)
    }
}

fn actor_of(tokens: &[Token], headers: &HeaderMap) -> Result<Actor, Problem> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return Err(Problem::unauthorized("one Authorization: Bearer TOKEN, please"));
    };
    let token = field.as_bytes();
    let token = token.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
    let Some((_, token)) = token.filter(|(_, token)| token.len() <= TOKEN_BYTES_MAX) else {
        return Err(Problem::unauthorized("Authorization: not Bearer TOKEN"));
    };
    let hash = blake3::hash(token);
    // Equality of hashes takes the same time whatever they are; all are looked at, whichever it is.
    let found = tokens.iter().fold(None, |found, token| if token.hash == hash { Some(token) } else { found });
    match found {
        Some(token) if token.expires_at.is_none_or(|expires_at| expires_at > wall()) => Ok(token.actor.clone()),
        Some(_) => Err(Problem::unauthorized("this token has expired")),
        None => Err(Problem::unauthorized("this token is not known")),
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

fn read(path: &Path) -> Result<(Arc<[Token]>, Stamp), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    // Whoever may write it may do everything.
    if metadata.mode() & 0o022 != 0 {
        return Err("others than its owner may write it: chmod go-w".into());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("larger than {FILE_BYTES_MAX} bytes"));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok((parse(&text)?.into(), stamp(&metadata)))
}

fn parse(text: &str) -> Result<Vec<Token>, String> {
    // The message alone: the text around it holds hashes.
    let written: Tokens = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    if written.token.is_empty() || written.token.len() > TOKENS_MAX {
        return Err(format!("{} tokens: from 1 to {TOKENS_MAX}", written.token.len()));
    }
    let mut tokens: Vec<Token> = Vec::new();
    for Written { name, roles, blake3, expires_at } in written.token {
        let fits = (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        if !fits || name.trim() != name {
            return Err(format!("a name has 1 to {NAME_CHARS_MAX} characters, none of them control characters"));
        }
        let hash = blake3::Hash::from_hex(&blake3).map_err(|_| format!("{name}: blake3: not 64 hex digits"))?;
        let taken = |token: &Token| token.actor.name.as_deref() == Some(&*name) || token.hash == hash;
        if tokens.iter().any(taken) {
            return Err(format!("{name}: the name or the token stands twice"));
        }
        if roles.is_empty() {
            return Err(format!("{name}: no roles"));
        }
        tokens.push(Token { hash, expires_at, actor: Actor { name: Some(name.into()), roles: roles.into() } });
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Vec<Token>, String> {
        parse(text)
    }

    fn one(name: &str, token: &str, more: &str) -> String {
        format!(
            "[[token]]\nname = {name:?}\nroles = [\"operator\"]\nblake3 = \"{}\"\n{more}\n",
            blake3::hash(token.as_bytes())
        )
    }

    #[test]
    fn who_bears_a_token_is_known_by_it_and_nobody_else_is() {
        let text = one("ann", "secret-a", "") + &one("bob", "secret-b", "expires_at = \"2020-01-01T00:00:00Z\"");
        let list = list(&text).expect("tokens");
        let ask = |field: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, field.parse().expect("a value"));
            actor_of(&list, &headers)
        };
        let ann = ask("bearer secret-a").expect("known");
        assert_eq!(ann.name.as_deref(), Some("ann"));
        assert!(ann.needs(Role::Operator, "lift").is_ok() && ann.needs(Role::Approver, "approve").is_err());
        for field in ["Bearer secret-b", "Bearer secret-c", "Bearer ", "Basic secret-a", "secret-a", "Bearer secret-a "]
        {
            assert!(ask(field).is_err(), "{field}");
        }
        assert!(actor_of(&list, &HeaderMap::new()).is_err());
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_without_its_hashes() {
        let good = one("a", "t", "");
        for text in [
            String::new(),
            good.clone() + &good,
            good.replace("operator", "root"),
            good.replace("name = \"a\"", "name = \"\""),
            one("a", "t", "salt = 1"),
            good.replace("[\"operator\"]", "[]"),
            good.replace("blake3 = \"", "blake3 = \"x"),
        ] {
            let words = list(&text).expect_err("refused");
            assert!(!words.contains(&blake3::hash(b"t").to_string()[..16]), "{words}");
        }
    }
}
