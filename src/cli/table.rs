//! Results for a person: columns, without anything a terminal would act on.

use std::io::{self, Write};

use serde_json::Value;

use crate::cli::settings::model::Output;

/// Things that a line about many names.
const NAMED_MAX: usize = 3;
/// Longest cell of a table, in characters; the rest is cut.
const CELL_CHARS_MAX: usize = 120;

/// Rows under headings.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()] }
    }

    /// Adds a row; its texts may come from anybody.
    pub fn row(&mut self, cells: &[&str]) {
        self.rows.push(cells.iter().map(|cell| cut(&clean(cell))).collect());
    }

    /// Writes it, headings first; without rows it says so.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.rows.len() == 1 {
            return writeln!(out, "nothing");
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}", width = *width)).collect();
            writeln!(out, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Some of many, cleaned and cut, and how many more there are.
pub fn few<'a>(all: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = all.len().saturating_sub(NAMED_MAX);
    let some: Vec<String> = all.take(NAMED_MAX).map(|text| cut(&clean(text))).collect();
    if more == 0 { some.join(", ") } else { format!("{} and {more} more", some.join(", ")) }
}

/// Writes values as one array, or one a line.
///
/// # Errors
/// Those of the stream.
pub fn write_values(output: Output, values: &[Value], out: &mut dyn Write) -> io::Result<()> {
    match output {
        Output::Ndjson => values.iter().try_for_each(|value| writeln!(out, "{value}")),
        Output::Json | Output::Table => {
            serde_json::to_writer_pretty(&mut *out, values).map_err(io::Error::from)?;
            writeln!(out)
        }
    }
}

/// Text without what a terminal acts on: escape sequences lose their beginning, and nothing turns the direction of
/// reading or hides.
#[must_use]
pub fn clean(text: &str) -> String {
    let is_shown = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    text.chars().map(|c| if matches!(c, '\n' | '\t' | '\r') { ' ' } else { c }).filter(is_shown).collect()
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(CELL_CHARS_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_gone() {
        assert_eq!(clean("a\u{1b}[31mb\u{7}\u{202e}c\nd\u{9b}e\u{200b}"), "a[31mbc de");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["id", "why"]);
        table.row(&["long-id", "x"]);
        table.row(&["b", &"y".repeat(500)]);
        let mut out = Vec::new();
        table.write(&mut out).expect("written");
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["id       why", "long-id  x"]);
        assert_eq!(lines[2].chars().count(), 9 + CELL_CHARS_MAX);
        let mut out = Vec::new();
        Table::new(&["id"]).write(&mut out).expect("written");
        assert_eq!(out, b"nothing\n");
    }
}
