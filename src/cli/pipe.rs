//! Standard output that may lose its reader: `| head` is no fault, and the verb's own exit code stands.

use std::io::{self, Write};

/// Writes on until the reader is gone, then into nothing.
pub struct Tolerant<W> {
    out: W,
    closed: bool,
}

impl<W: Write> Tolerant<W> {
    /// Around a stream.
    pub fn new(out: W) -> Self {
        Self { out, closed: false }
    }

    fn tolerate<T>(&mut self, outcome: io::Result<T>, otherwise: T) -> io::Result<T> {
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(otherwise)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for Tolerant<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Ok(bytes.len());
        }
        let written = self.out.write(bytes);
        self.tolerate(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = if self.closed { Ok(()) } else { self.out.flush() };
        self.tolerate(flushed, ())
    }
}
