//! Overrides with a cursor: everything, changes, streams; slow readers and old cursors.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use reflex::serve::Limits;
use serde_json::Value;

use super::client::{Answer, joined, rest};
use super::fakes::{Served, override_of};

/// Applies an answer to what a client holds.
fn follow(held: &mut BTreeMap<String, Value>, answer: &Answer) -> String {
    let told = answer.json();
    if told["full"] == true {
        held.clear();
    }
    for change in told["overrides"].as_array().expect("overrides") {
        let key = change["key"].as_str().expect("a key").to_owned();
        match &change["override"] {
            Value::Null => drop(held.remove(&key)),
            record => drop(held.insert(key, record.clone())),
        }
    }
    told["cursor"].as_str().expect("a cursor").to_owned()
}

#[test]
fn whoever_follows_the_changes_holds_what_a_full_answer_holds() {
    let served = Served::new();
    let (mut held, mut fresh) = (BTreeMap::new(), BTreeMap::new());
    let mut cursor = follow(&mut held, &served.get("/v1/overrides"));
    for round in 1..=40_u32 {
        for number in 0..7 {
            let session = format!("s{}", (round * 3 + number * 5) % 11);
            if (round + number) % 3 == 0 {
                served.board.put_override(&format!("key-{session}"), None);
            } else {
                served.put_override(&session, round);
            }
        }
        cursor = follow(&mut held, &served.get(&format!("/v1/overrides?after={cursor}")));
    }
    follow(&mut fresh, &served.get("/v1/overrides"));
    assert!(!held.is_empty());
    assert_eq!(held, fresh);
    let none = served.get(&format!("/v1/overrides?after={cursor}")).json();
    assert_eq!((none["full"].clone(), none["overrides"].as_array().map(Vec::len)), (false.into(), Some(0)));
}

#[test]
fn a_large_answer_is_whole() {
    let served = Served::new();
    for number in 0..777 {
        served.put_override(&format!("s{number}"), 1);
    }
    let mut held = BTreeMap::new();
    follow(&mut held, &served.get("/v1/overrides"));
    assert_eq!(held.len(), 777);
    let of_graph = served.get("/v1/overrides?graph=other").json();
    assert_eq!(of_graph["overrides"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_reload_tells_what_went_and_what_came() {
    let served = Served::new();
    served.put_override("old", 1);
    served.put_override("same", 1);
    let mut held = BTreeMap::new();
    let cursor = follow(&mut held, &served.get("/v1/overrides"));
    let loaded = ["same", "new"].map(|session| (format!("key-{session}"), override_of(session, 1).to_string()));
    served.board.load(&BTreeMap::from(loaded));
    let changes = served.get(&format!("/v1/overrides?after={cursor}")).json();
    assert_eq!(changes["overrides"].as_array().map(Vec::len), Some(2), "what stayed is no change: {changes}");
    follow(&mut held, &served.get(&format!("/v1/overrides?after={cursor}")));
    assert_eq!(held.keys().collect::<Vec<_>>(), ["key-new", "key-same"]);
}

#[test]
fn a_cursor_that_is_too_old_or_not_ours_is_answered_by_everything() {
    let served = Served::with(Limits { changes_kept_max: 3, ..Limits::default() });
    let first = follow(&mut BTreeMap::new(), &served.get("/v1/overrides"));
    for revision in 1..=3 {
        served.put_override("s", revision);
    }
    assert_eq!(served.get(&format!("/v1/overrides?after={first}")).json()["full"], false);
    served.put_override("s", 4);
    for cursor in [first.as_str(), "0-1", "nonsense", &format!("{first}9")] {
        let told = served.get(&format!("/v1/overrides?after={cursor}")).json();
        assert_eq!((&told["full"], told["overrides"].as_array().map(Vec::len)), (&true.into(), Some(1)), "{cursor}");
    }
}

#[test]
fn a_long_poll_is_answered_by_the_next_change() {
    let served = Served::new();
    let cursor = follow(&mut BTreeMap::new(), &served.get("/v1/overrides"));
    let mut polls: Vec<TcpStream> =
        (0..5).map(|_| served.begin(&format!("/v1/overrides?after={cursor}&wait=20"), "")).collect();
    served.wait_for_waiting(5);
    let started = Instant::now();
    served.put_override("s", 1);
    for poll in &mut polls {
        let answer = Answer::parse(&rest(poll));
        assert_eq!(answer.json()["overrides"][0]["override"]["override_id"], "ovr_s");
    }
    assert!(started.elapsed() < Duration::from_secs(15), "not at its end");
    served.wait_for_waiting(0);
    let brief = served
        .get(&format!("/v1/overrides?after={}&wait=0.05", follow(&mut BTreeMap::new(), &served.get("/v1/overrides"))));
    assert_eq!((brief.status, brief.json()["overrides"].as_array().map(Vec::len)), (200, Some(0)));
}

/// A stream, event by event: its name, its id, its data.
struct Stream {
    socket: TcpStream,
    text: String,
    read: usize,
}

impl Stream {
    fn open(served: &Served, query: &str, head: &str) -> Self {
        Self { socket: served.begin(&format!("/v1/overrides/stream{query}"), head), text: String::new(), read: 0 }
    }

    /// The next event; none: the end.
    fn next(&mut self) -> Option<(String, String, Value)> {
        loop {
            let body = joined(self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body));
            if let Some((event, _)) = body[self.read..].split_once("\n\n") {
                self.read += event.len() + 2;
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap_or("").to_owned()
                };
                if event.starts_with(':') {
                    continue;
                }
                return Some((field("event"), field("id"), serde_json::from_str(&field("data")).expect("JSON")));
            }
            let mut piece = [0; 4096];
            match self.socket.read(&mut piece).expect("read") {
                0 => return None,
                count => self.text.push_str(std::str::from_utf8(&piece[..count]).expect("text")),
            }
        }
    }

    fn names(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next().expect("an event").0).collect()
    }
}

#[test]
fn a_stream_begins_with_everything_and_goes_on_where_it_was_left() {
    let served = Served::new();
    served.put_override("a", 1);
    let mut stream = Stream::open(&served, "", "");
    assert_eq!(
        stream.next().expect("an event"),
        ("resync".into(), String::new(), serde_json::json!({"reason": "start"}))
    );
    let (name, id, data) = stream.next().expect("an event");
    assert_eq!((name.as_str(), id.as_str(), &data["override"]["override_id"]), ("override", "", &"ovr_a".into()));
    let (name, synced, data) = stream.next().expect("an event");
    assert_eq!((name.as_str(), &data["overrides"]), ("synced", &1.into()));
    served.put_override("b", 1);
    let (_, after_b, data) = stream.next().expect("an event");
    assert_eq!(data["key"], "key-b");
    drop(stream);
    served.put_override("c", 1);
    served.board.put_override("key-a", None);
    for (id, expected) in [(&after_b, &["key-c", "key-a"][..]), (&synced, &["key-b", "key-c", "key-a"])] {
        let mut again = Stream::open(&served, "", &format!("Last-Event-ID: {id}\r\n"));
        let keys: Vec<Value> = expected.iter().map(|_| again.next().expect("an event").2["key"].clone()).collect();
        assert_eq!(keys, expected);
        let mut by_query = Stream::open(&served, &format!("?after={id}"), "");
        assert_eq!(by_query.next().expect("an event").2["key"], expected[0]);
    }
    let mut unknown = Stream::open(&served, "", "Last-Event-ID: 0-7\r\n");
    assert_eq!(unknown.next().expect("an event").2["reason"], "unknown_cursor");
    assert_eq!(unknown.names(3), ["override", "override", "synced"]);
}

#[test]
fn who_reads_too_slowly_is_told_and_let_go() {
    let limits = Limits { changes_kept_max: 10, write_timeout: Duration::from_mins(1), ..Limits::default() };
    let served = Served::with(limits);
    let mut stream = Stream::open(&served, "", "");
    assert_eq!(stream.names(2), ["resync", "synced"]);
    // 40 MB, more than the system buffers between two sockets: whoever does not read falls behind.
    for revision in 1..=2000 {
        let mut record = override_of("s", revision);
        record["reason"] = "x".repeat(20_000).into();
        served.board.put_override("key-s", Some(&record.to_string()));
    }
    let text = rest(&mut stream.socket);
    let last = text.rsplit("event: ").next().expect("an event");
    assert!(last.starts_with("resync\ndata: {\"reason\":\"slow_reader\"}"), "{}", &last[..last.len().min(300)]);
    assert!(text.ends_with("0\r\n\r\n"), "the end of the answer, not a cut");
    assert_eq!(served.reached("changes_kept_max"), 1);
}

#[test]
fn who_does_not_read_at_all_is_cut() {
    let limits = Limits { write_timeout: Duration::from_millis(300), changes_kept_max: 100_000, ..Limits::default() };
    let served = Served::with(limits);
    let _silent = Stream::open(&served, "", "");
    served.wait_for_waiting(1);
    let started = Instant::now();
    let mut revision = 0;
    while served.metric("reflex_http_waiting") > 0 {
        for _ in 0..200 {
            revision += 1;
            let mut record = override_of("s", revision);
            record["reason"] = "x".repeat(20_000).into();
            served.board.put_override("key-s", Some(&record.to_string()));
        }
        thread::sleep(Duration::from_millis(50));
        assert!(started.elapsed() < Duration::from_mins(1), "never cut");
    }
    assert!(served.reached("write_timeout") >= 1);
}

#[test]
fn streams_end_at_the_age_of_their_connection_and_with_the_service() {
    let served = Served::with(Limits { connection_age_max: Duration::from_secs(2), ..Limits::default() });
    let mut stream = Stream::open(&served, "", "");
    assert_eq!(stream.names(2), ["resync", "synced"]);
    assert!(stream.next().is_none(), "the end of the answer, not a cut");
    assert!(stream.text.ends_with("0\r\n\r\n"), "{}", stream.text);
    let served = Served::new();
    let mut stream = Stream::open(&served, "", "");
    assert_eq!(stream.names(2), ["resync", "synced"]);
    drop(served);
    assert!(stream.next().is_none());
}

#[test]
fn those_who_wait_have_places_of_their_own() {
    let served = Served::with(Limits { waiting_max: 1, ..Limits::default() });
    let _stream = Stream::open(&served, "", "");
    served.wait_for_waiting(1);
    let refused = served.get("/v1/overrides/stream");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("busy")));
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    assert_eq!(served.get("/v1/interventions?session_id=s&wait=1").status, 503);
    assert_eq!(served.get("/v1/overrides").status, 200);
    assert_eq!(served.reached("waiting_max"), 2);
}
