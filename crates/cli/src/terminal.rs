//! Width of the terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// Line width without a terminal.
pub(crate) const WIDTH: usize = 100;

/// Minimum width for columns, and maximum width for readable lines.
const SENSIBLE: (usize, usize) = (40, 120);

/// Width of the terminal on standard output. `COLUMNS` takes precedence.
pub(crate) fn columns() -> usize {
    let wish = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let columns = wish.filter(|columns| *columns > 0).or_else(screen).unwrap_or(WIDTH);
    columns.clamp(SENSIBLE.0, SENSIBLE.1)
}

fn screen() -> Option<usize> {
    of(&std::io::stdout())
}

/// Width of the terminal on a stream, if it is one.
pub(crate) fn of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
