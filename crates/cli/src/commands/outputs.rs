//! Output files of `serve` and `report`: requests, metrics for scripts, and the HTML report.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tacho_args::{Values, config};
use tacho_core::secret::redact_args;
use tacho_record::RunRecord;
use tacho_report::console::{self, BlockStyle, Shown};
use tacho_report::html::run::{self, About};
use tacho_report::json::{ResultFile, try_writing, write_whole};
use tacho_report::{card, export::requests, style};

use crate::args::serve::{Destination, Outputs};
use crate::exit::{Misused, misused, saved};

impl Outputs {
    /// Checks, before the run starts, that the files are writable.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.requests {
            requests::Format::of(path)
                .ok_or_else(|| tacho_report::Error::RequestsFormat { path: path.clone() })
                .map_err(|error| Misused(format!("--save-requests {error}")))?;
        }
        if let Some(path) = &self.card {
            card::check(path).map_err(|error| Misused(format!("--card {error}")))?;
        }
        // The page would open in no program of these types.
        let others = ["pdf", "png", "svg", "json", "md", "txt", "csv"];
        let ending =
            |path: &&PathBuf| path.extension().is_some_and(|ending| others.iter().any(|other| ending == *other));
        if let Some(path) = self.page.as_ref().filter(ending) {
            misused!("--report {} is not a name for a page: the name must end in .html", path.display());
        }
        let summary = self.summary.as_ref().and_then(|summary| match summary {
            Destination::File(path) => Some(path),
            Destination::Stdout => None,
        });
        let files = [self.requests.as_ref(), self.page.as_ref(), self.card.as_ref(), summary];
        files.into_iter().flatten().try_for_each(|path| check_writable(path))
    }

    /// Whether standard output is reserved for machine-readable output.
    pub(crate) fn owns_stdout(&self) -> bool {
        self.summary == Some(Destination::Stdout)
    }

    /// Prints the report to standard output, or to standard error if standard output is reserved for a script.
    pub(crate) fn print(&self, record: &RunRecord) -> io::Result<()> {
        if !self.owns_stdout() {
            return console::print(record, Shown { verbose: self.verbose, no_charts: self.no_charts });
        }
        let text = console::vllm_report(record)
            + &console::summary_report(record, BlockStyle { verbose: self.verbose, ..BlockStyle::PLAIN });
        io::stderr().write_all(text.as_bytes())
    }

    /// Writes the files; `about` holds additional information for the HTML report.
    pub(crate) fn write(&self, record: &RunRecord, about: &About) -> anyhow::Result<()> {
        if let Some(path) = &self.requests {
            requests::save(record, path)?;
            saved(path);
        }
        if let Some(path) = &self.page {
            let attribution = super::explain::of_record(record, None).ok();
            run::save(record, &About { attribution, ..about.clone() }, path)?;
            saved(path);
        }
        if let Some(path) = &self.card {
            card::save(record, about, path)?;
            saved(path);
        }
        let line = |out: &mut dyn Write| {
            let mut text = Vec::new();
            ResultFile::summary(record).write_to(&mut text)?;
            text.push(b'\n');
            out.write_all(&text)
        };
        match &self.summary {
            Some(Destination::Stdout) => line(&mut tacho_report::out())?,
            Some(Destination::File(path)) => {
                write_whole(path, |out| line(out))?;
                saved(path);
            }
            None => {}
        }
        Ok(())
    }
}

pub(crate) fn command_line(args: &[String]) -> Option<String> {
    (!args.is_empty()).then(|| style::command_line(args))
}

/// The command line with the values of `--config` and of environment variables as flags, so that it gives the same run
/// without them. Secrets among these are left out.
pub(crate) fn recorded_command(command: &[String], values: &Values) -> Vec<String> {
    let mut args = command.to_vec();
    // A command that has been read names at most one file.
    let _ = config::take_path(&mut args);
    let plain = values.implied_args().into_iter().filter(|implied| redact_args(implied) == *implied);
    args.extend(plain.flatten());
    args
}

pub(crate) fn tacho_command(values: &Values) -> Vec<String> {
    recorded_command(&std::env::args().collect::<Vec<_>>(), values)
}

/// Checks that the directory exists; the file is written atomically at the end.
pub(crate) fn check_writable(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        anyhow::bail!("{} is a directory, not a file", path.display());
    }
    let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        anyhow::bail!("{}: the directory {} does not exist: create it first", path.display(), directory.display());
    }
    // An existing pipe or device does not need a writable directory.
    if path.exists() {
        return Ok(());
    }
    try_writing(directory).with_context(|| format!("{}: cannot write into the directory", path.display()))
}
