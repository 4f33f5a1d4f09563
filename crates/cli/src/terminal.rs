//! Width of the terminal.

pub(crate) use tacho_report::style::columns_of as of;

/// Line width without a terminal.
pub(crate) const WIDTH: usize = 100;

/// Minimum width for columns, and maximum width for readable lines.
const SENSIBLE: (usize, usize) = (40, 120);

/// Width of the terminal on standard output. `COLUMNS` takes precedence.
pub(crate) fn columns() -> usize {
    let wish = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let columns = wish.filter(|columns| *columns > 0).or_else(|| of(&std::io::stdout())).unwrap_or(WIDTH);
    columns.clamp(SENSIBLE.0, SENSIBLE.1)
}
