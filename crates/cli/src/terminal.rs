//! How wide the terminal is.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// Where lines are broken when there is no terminal to ask.
pub(crate) const WIDTH: usize = 100;

/// Narrower than this nothing can be shown in columns; wider than that a line is hard to read.
const SENSIBLE: (usize, usize) = (40, 120);

/// Columns of the screen that standard output goes to. `COLUMNS` wins, as everywhere.
pub(crate) fn columns() -> usize {
    let wish = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let columns = wish.filter(|columns| *columns > 0).or_else(screen).unwrap_or(WIDTH);
    columns.clamp(SENSIBLE.0, SENSIBLE.1)
}

fn screen() -> Option<usize> {
    of(&std::io::stdout())
}

/// Columns of the screen that a stream goes to, if it goes to one.
pub(crate) fn of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
