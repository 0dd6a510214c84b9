//! Asks a broker one question, the way every client opens a connection: which requests do you know?

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_secs(5);

/// `ApiVersions`, version 0: request key 18, a correlation id, no client id; length in front, as all integers big-endian.
const QUESTION: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
/// The correlation id, then error code 0.
const GOOD_ANSWER: [u8; 6] = [0, 0, 0, 7, 0, 0];

/// True once the broker answers requests on this loopback port (a plaintext one).
pub fn answers(port: u16) -> bool {
    ask(port).is_ok_and(|answer| answer == GOOD_ANSWER)
}

fn ask(port: u16) -> io::Result<[u8; 6]> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), CONNECT)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(&QUESTION)?;
    let mut answer = [0; 10];
    stream.read_exact(&mut answer)?;
    let [_, _, _, _, answer @ ..] = answer;
    Ok(answer)
}
