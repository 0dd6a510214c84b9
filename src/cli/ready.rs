//! `reflex ready`: asks a running `reflex run` on this machine whether it is ready; for containers without a shell.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::cli::exit::{Exit, Failure};
use crate::cli::failure;
use crate::cli::settings::model::Settings;

/// How long a running process may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// More of an answer is not read.
const ANSWER_BYTES_MAX: u64 = 65_536;

/// `reflex ready`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Ask whether it is alive instead
    #[arg(long)]
    live: bool,
}

/// Prints the answer; exit 0 for yes, 1 for no.
///
/// # Errors
/// Exit 69 where nobody answers, 78 without an address, and for a service that speaks TLS alone.
pub fn run(args: &Args, settings: &Settings, out: &mut dyn Write) -> Result<Exit, Failure> {
    let http = settings.http.as_str();
    if http.is_empty() {
        return Err(Failure::new(Exit::Configuration, "http: no address is set, so there is nobody to ask"));
    }
    if !settings.http_tls_certificate.is_empty() {
        let words =
            format!("http_tls_certificate: `reflex ready` does not speak TLS; ask https://{http}/readyz instead");
        return Err(Failure::new(Exit::Configuration, words));
    }
    let path = if args.live { "/livez" } else { "/readyz" };
    let answer = ask(http, path)
        .map_err(|error| Failure::new(Exit::Unavailable, format_args!("http://{http}{path}: {error}")))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    writeln!(out, "{}", body.trim_end()).map_err(failure::unwritable)?;
    let yes = head.split(' ').nth(1) == Some("200");
    Ok(if yes { Exit::Done } else { Exit::Found })
}

fn ask(http: &str, path: &str) -> std::io::Result<String> {
    let mut last = std::io::Error::other("no address");
    for address in http.to_socket_addrs()? {
        match TcpStream::connect_timeout(&reachable(address), PATIENCE) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
                let mut bytes = Vec::new();
                stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A process that listens on every address is reached by loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_reached_by_loopback() {
        let of = |text: &str| reachable(text.parse().expect("an address")).to_string();
        assert_eq!(of("0.0.0.0:8080"), "127.0.0.1:8080");
        assert_eq!(of("[::]:8080"), "[::1]:8080");
        assert_eq!(of("10.0.0.1:8080"), "10.0.0.1:8080");
    }

    #[test]
    fn without_an_address_there_is_nobody_to_ask() {
        let ask = |settings: &Settings| run(&Args { live: false }, settings, &mut Vec::new()).expect_err("refused");
        assert_eq!(ask(&Settings::default()).exit, Exit::Configuration);
        let of = |http: &str, certificate: &str| Settings {
            http: http.into(),
            http_tls_certificate: certificate.into(),
            ..Settings::default()
        };
        assert!(ask(&of("127.0.0.1:1", "chain.pem")).message.contains("does not speak TLS"));
    }
}
