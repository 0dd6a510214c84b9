//! Inputs of one JSON object a line, with a bound on what a line takes.

use std::fs::File;
use std::io::{BufRead, Read};
use std::path::Path;

use crate::cli::exit::{Exit, Failure};

/// An input: its name, its length where it has one, and what it holds.
pub type Source = (String, Option<u64>, Box<dyn Read>);

/// Opens a file; `-` is standard input.
///
/// # Errors
/// Exit 66 where it cannot be read.
pub fn open(path: &Path) -> Result<Source, Failure> {
    let name = path.display().to_string();
    if path == Path::new("-") {
        return Ok((name, None, Box::new(std::io::stdin())));
    }
    let missing = |error: std::io::Error| Failure::new(Exit::NoInput, format_args!("{name}: {error}"));
    let file = File::open(path).map_err(missing)?;
    let metadata = file.metadata().map_err(missing)?;
    if metadata.is_dir() {
        return Err(Failure::new(Exit::NoInput, format_args!("{name}: a folder")));
    }
    Ok((name, Some(metadata.len()), Box::new(file)))
}

/// Reads a line, but keeps at most one byte more than `bytes_max` of it; how many bytes were read.
///
/// # Errors
/// Those of the stream.
pub fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: u64) -> std::io::Result<u64> {
    let mut read = reader.by_ref().take(bytes_max + 1).read_until(b'\n', line)? as u64;
    while read > 0 && line.last() != Some(&b'\n') {
        let rest = reader.fill_buf()?;
        if rest.is_empty() {
            break;
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(rest.len(), |end| end + 1);
        reader.consume(count);
        read += count as u64;
        if end.is_some() {
            break;
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_is_read() {
        let text = format!("{}\nshort\n", "x".repeat(300_000));
        let mut reader = BufReader::with_capacity(1000, text.as_bytes());
        let mut line = Vec::new();
        assert_eq!(read_line(&mut reader, &mut line, 10).expect("read"), 300_001);
        assert_eq!(line.len(), 11);
        line.clear();
        read_line(&mut reader, &mut line, 10).expect("read");
        assert_eq!(line, b"short\n");
    }
}
