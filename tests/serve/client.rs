//! A client that says exactly what it is told to.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for an answer.
const SOON: Duration = Duration::from_secs(30);

/// What was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let head = head.to_lowercase();
        let body = if head.contains("transfer-encoding: chunked") { joined(body) } else { body.to_owned() };
        Self { status, head, body }
    }
}

/// The text of a chunked body, as far as it came.
pub fn joined(mut chunks: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some((chunk, rest)) = rest.split_at_checked(size).filter(|_| size > 0) else { break };
        text.push_str(chunk);
        chunks = rest.strip_prefix("\r\n").unwrap_or(rest);
    }
    text
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    stream
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    say(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

pub fn say(address: SocketAddr, text: &str) -> Answer {
    let mut stream = connect(address);
    // It may have closed before all was said.
    let _ = stream.write_all(text.as_bytes());
    Answer::parse(&rest(&mut stream))
}

/// What comes until the other side closes.
pub fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("not closed: {error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
