//! A proxy that reads requests and answers, and loses the end of one transaction: its request, or its answer.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// The API key of `EndTxn`.
const END_TXN: i16 = 26;

/// What gets lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The broker never hears of it.
    Request,
    /// The broker carries it out, and the client never hears of that.
    Answer,
    /// The broker hears of it so late.
    #[allow(dead_code, reason = "for the tests of faults")]
    Late(Duration),
}

/// A proxy in front of one listener of a broker.
#[derive(Clone)]
pub struct Proxy {
    pub port: u16,
    target: Arc<OnceLock<String>>,
    ends: Arc<AtomicUsize>,
}

impl Proxy {
    /// Listens; what comes before `forward` has to wait. Of the ends of transactions the one with this number is lost.
    pub fn listen(number: usize, lost: Lost) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let proxy = Self { port, target: Arc::default(), ends: Arc::default() };
        let shared = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                shared.serve(client, number, lost);
            }
        });
        proxy
    }

    /// Where to.
    pub fn forward(&self, target: &str) {
        self.target.set(target.to_owned()).expect("set once");
    }

    /// Ends of transactions seen.
    pub fn ends(&self) -> usize {
        self.ends.load(Ordering::Relaxed)
    }

    fn serve(&self, mut client: TcpStream, number: usize, lost: Lost) {
        let Ok(mut broker) = TcpStream::connect(self.target.wait()) else { return };
        let (Ok(mut answers_in), Ok(mut answers_out)) = (broker.try_clone(), client.try_clone()) else { return };
        let swallowed = Arc::new(Mutex::new(BTreeSet::new()));
        let (ends, shared) = (Arc::clone(&self.ends), Arc::clone(&swallowed));
        thread::spawn(move || {
            while let Some(frame) = frame(&mut client) {
                let is_end = frame.get(4..6).is_some_and(|key| key == END_TXN.to_be_bytes());
                if is_end && ends.fetch_add(1, Ordering::Relaxed) + 1 == number {
                    match lost {
                        Lost::Request => continue,
                        Lost::Late(late) => thread::sleep(late),
                        Lost::Answer => drop(shared.lock().expect("no panic").insert(frame[8..12].to_vec())),
                    }
                }
                if broker.write_all(&frame).is_err() {
                    break;
                }
            }
            // Both directions end together; the other side may be gone already.
            let _ = broker.shutdown(std::net::Shutdown::Both);
        });
        thread::spawn(move || {
            while let Some(frame) = frame(&mut answers_in) {
                let is_lost = frame.get(4..8).is_some_and(|id| swallowed.lock().expect("no panic").remove(id));
                if !is_lost && answers_out.write_all(&frame).is_err() {
                    break;
                }
            }
            let _ = answers_out.shutdown(std::net::Shutdown::Both);
        });
    }
}

/// One message with its length; none at the end.
fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).ok()?;
    let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
    frame.resize(4 + length, 0);
    stream.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}
