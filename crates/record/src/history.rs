//! A history of results in one directory. An entry is a directory of its own, made under another name and renamed, so
//! that jobs can add at the same time and a crash leaves no half of one. `index.parquet` is made from the entries for
//! programs that read tables; nothing here reads it.

mod entry;
mod series;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{borrow::Cow, io};

use tacho_core::files::read_data;
use tacho_core::json::{Dict, FieldError, Json, Value, dumps, dumps_indented, parse};
use tacho_rowlog::{Columns, Values, write_parquet};

pub use self::entry::{Entry, EntryKind, better};
pub use self::series::{Series, differences, names, series};

/// Version of the format.
const VERSION: u64 = 1;
const ENTRY: &str = "entry.json";
const RUNS: &str = "runs";
const INDEX: &str = "index.parquet";
const LOCK: &str = ".lock";
/// Entries under construction start with this; older ones were left by a crash.
const UNFINISHED: &str = ".new-";
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A history that cannot be read or written.
#[expect(missing_docs, reason = "the message says it")]
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Index { path: PathBuf, source: tacho_rowlog::Error },
    #[error("{} is not a history: add a result first (tacho history add)", path.display())]
    Missing { path: PathBuf },
    #[error("it holds no result of a benchmark")]
    NotAResult,
    #[error("not added: the run {0}")]
    Incomplete(&'static str),
}

/// The directory of a history.
#[derive(Debug, Clone)]
pub struct History {
    directory: PathBuf,
}

impl History {
    /// A history, which need not exist yet.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        History { directory: directory.into() }
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes its directory, unless it is there. Fails when it cannot be made.
    pub fn open(&self) -> Result<(), HistoryError> {
        fs::create_dir_all(self.directory.join(RUNS)).map_err(write(&self.directory))
    }

    fn run(&self, id: &str) -> PathBuf {
        self.directory.join(RUNS).join(id)
    }

    /// The result of an entry.
    pub fn result(&self, id: &str) -> PathBuf {
        self.run(id).join(format!("{id}.json"))
    }

    /// The entry of the same run, whose result may come from another file, such as its log.
    pub fn same_run(&self, entry: &Entry) -> Option<Entry> {
        let day = entry.id.split('-').next()?;
        let listed = fs::read_dir(self.directory.join(RUNS)).ok()?.flatten();
        let at_once = listed.filter(|item| item.file_name().to_string_lossy().starts_with(day));
        let mut known = at_once.filter_map(|item| read_entry(&item.path()).ok());
        known.find(|known| {
            (known.kind, &known.settings, &known.metrics) == (entry.kind, &entry.settings, &entry.metrics)
        })
    }

    /// Removes its directory if nothing is in it.
    pub fn remove_empty(&self) {
        let _ = fs::remove_dir(self.directory.join(RUNS)).and_then(|()| fs::remove_dir(&self.directory));
    }

    /// Adds an entry with its result and, if it has another form, the file that it was read from. Returns whether it is
    /// new: an entry that is there gets the new tags. Fails when the directory cannot be written.
    pub fn add(&self, entry: &Entry, result: &Dict, original: Option<&Path>) -> Result<bool, HistoryError> {
        let target = self.run(&entry.id);
        if let Ok(known) = read_entry(&target) {
            let mut merged = known;
            merged.tag(&entry.tags);
            let temporary = target.join(format!("{UNFINISHED}{}", std::process::id()));
            self.write(&temporary, dumps_indented(&merged.to_json(), 1).as_bytes())?;
            fs::rename(&temporary, target.join(ENTRY)).map_err(write(&target))?;
            return Ok(false);
        }
        let name = format!("{UNFINISHED}{}-{}", std::process::id(), entry.id);
        let temporary = self.run(&name);
        let made =
            self.make(&temporary, entry, result, original).and_then(|()| match fs::rename(&temporary, &target) {
                // Another job added the same result meanwhile.
                Err(_) if target.join(ENTRY).exists() => Ok(false),
                other => other.map(|()| true).map_err(write(&target)),
            });
        if !matches!(made, Ok(true)) {
            let _ = fs::remove_dir_all(&temporary);
        }
        made
    }

    fn make(&self, at: &Path, entry: &Entry, result: &Dict, original: Option<&Path>) -> Result<(), HistoryError> {
        fs::create_dir_all(at).map_err(write(at))?;
        self.write(&at.join(format!("{}.json", entry.id)), dumps(&Value::Dict(result.clone())).as_bytes())?;
        if let Some((from, name)) = original.and_then(|from| Some((from, from.file_name()?))) {
            fs::copy(
                from,
                at.join(Path::new("original").with_extension(Path::new(name).extension().unwrap_or_default())),
            )
            .map_err(write(at))?;
        }
        self.write(&at.join(ENTRY), dumps_indented(&entry.to_json(), 1).as_bytes())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), HistoryError> {
        fs::write(path, bytes).and_then(|()| File::open(path)?.sync_all()).map_err(write(path))
    }

    /// All entries by time, and what is wrong with those that cannot be read. Fails when there is no history.
    pub fn entries(&self) -> Result<(Vec<Entry>, Vec<String>), HistoryError> {
        let runs = self.directory.join(RUNS);
        let listed = fs::read_dir(&runs).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                HistoryError::Missing { path: self.directory.clone() }
            }
            _ => HistoryError::Read { path: runs.clone(), source },
        })?;
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        for item in listed {
            let path = item.map_err(|source| HistoryError::Read { path: runs.clone(), source })?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
                continue;
            }
            match read_entry(&path) {
                Ok(entry) if path.file_name().is_some_and(|name| name == entry.id.as_str()) => entries.push(entry),
                Ok(_) => problems.push(format!("{}: its name is not its id", path.display())),
                Err(problem) => problems.push(format!("{}: {problem}", path.display())),
            }
        }
        entries.sort_by(|a, b| (&a.time, &a.id).cmp(&(&b.time, &b.id)));
        Ok((entries, problems))
    }

    /// Removes entries, and what crashed jobs left behind. Fails when the directory cannot be written.
    pub fn remove(&self, ids: &[&str]) -> Result<(), HistoryError> {
        for id in ids {
            // A name that starts with a dot is no entry, should the removal be interrupted.
            let (from, hidden) = (self.run(id), self.run(&format!("{UNFINISHED}{}-{id}", std::process::id())));
            fs::rename(&from, &hidden).and_then(|()| fs::remove_dir_all(&hidden)).map_err(write(&from))?;
        }
        let is_old = |path: &Path| {
            let time = fs::metadata(path).and_then(|facts| facts.modified()).ok();
            time.and_then(|time| SystemTime::now().duration_since(time).ok()).is_some_and(|age| age > ABANDONED)
        };
        for item in fs::read_dir(self.directory.join(RUNS)).into_iter().flatten().flatten() {
            let path = item.path();
            if item.file_name().to_string_lossy().starts_with(UNFINISHED) && is_old(&path) {
                let _ = fs::remove_dir_all(&path);
            }
        }
        Ok(())
    }

    /// Makes the index again. Jobs that add at the same time wait for each other, and the last one sees all entries.
    /// Fails when the index cannot be written.
    pub fn reindex(&self) -> Result<PathBuf, HistoryError> {
        let (path, lock) = (self.directory.join(INDEX), self.directory.join(LOCK));
        let lock = File::create(&lock).and_then(|file| file.lock().map(|()| file)).map_err(write(&lock))?;
        let entries = self.entries()?.0;
        let temporary = self.directory.join(format!("{UNFINISHED}{INDEX}"));
        write_parquet(&temporary, std::iter::once(columns(&entries)))
            .map_err(|source| HistoryError::Index { path: path.clone(), source })?;
        fs::rename(&temporary, &path).map_err(write(&path))?;
        drop(lock);
        Ok(path)
    }
}

fn write(path: &Path) -> impl Fn(io::Error) -> HistoryError + '_ {
    |source| HistoryError::Write { path: path.to_owned(), source }
}

fn read_entry(directory: &Path) -> Result<Entry, String> {
    let bytes = read_data(directory.join(ENTRY)).map_err(|error| error.to_string())?;
    let value = parse(&String::from_utf8_lossy(&bytes)).map_err(|error| error.to_string())?;
    match value.get("version").and_then(Value::as_u64) {
        Some(VERSION) => Entry::from_json(&value).map_err(|error: FieldError| error.to_string()),
        _ => Err(format!("its version is not {VERSION}: use the tacho that wrote it")),
    }
}

/// The table of the index: tags have the prefix `tag_`.
fn columns(entries: &[Entry]) -> Columns {
    let texts = |of: &dyn Fn(&Entry) -> Option<String>| Values::Texts(entries.iter().map(of).collect());
    let mut columns: Columns = vec![
        ("id".into(), texts(&|entry| Some(entry.id.clone()))),
        ("time".into(), texts(&|entry| Some(entry.time.clone()))),
        ("kind".into(), texts(&|entry| Some(entry.kind.name().to_owned()))),
        ("source".into(), texts(&|entry| Some(entry.source.clone()))),
    ];
    let value = |pairs: &[(String, String)], key: &str| {
        pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    };
    for key in keys(entries.iter().flat_map(|entry| &entry.tags)) {
        columns.push((Cow::Owned(format!("tag_{key}")), texts(&|entry| value(&entry.tags, key))));
    }
    for key in keys(entries.iter().flat_map(|entry| &entry.settings)) {
        columns.push((Cow::Owned(key.to_owned()), texts(&|entry| value(&entry.settings, key))));
    }
    for key in keys(entries.iter().flat_map(|entry| &entry.metrics)) {
        columns.push((
            Cow::Owned(key.to_owned()),
            Values::Floats(entries.iter().map(|entry| entry.metric(key)).collect()),
        ));
    }
    columns
}

/// The names in pairs, in the order of their first use.
fn keys<'e, T: 'e>(pairs: impl Iterator<Item = &'e (String, T)>) -> Vec<&'e str> {
    let mut names: Vec<&str> = Vec::new();
    pairs.for_each(|(name, _)| {
        if !names.contains(&name.as_str()) {
            names.push(name)
        }
    });
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(throughput: f64) -> Dict {
        let text = format!(
            r#"{{"model_id": "m", "max_concurrency": 8, "duration": 2.0, "completed": 4, "request_throughput": {throughput},
                "mean_tpot_ms": 20.0, "latencies": [1.0], "tacho": {{"output_throughput_per_gpu": 7.5, "workload": "v2:ab"}}}}"#
        );
        parse(&text).unwrap().as_dict().unwrap().clone()
    }

    fn entry(throughput: f64, day: usize, tags: &[(&str, &str)]) -> Entry {
        let tags: Vec<_> = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Entry::new(&result(throughput), &format!("2026-11-{day:02}T10:00:00Z"), "r.json", &tags).unwrap()
    }

    #[test]
    fn an_entry_has_what_the_index_needs() {
        let entry = entry(2.0, 3, &[("commit", "1a2b3c4d5e6f7")]);
        assert!(entry.id.starts_with("20261103T100000-") && entry.id.len() == 24, "{}", entry.id);
        assert_eq!(entry.metric("output_throughput_per_gpu"), Some(7.5));
        assert_eq!(entry.metric("tokens_per_second_per_user"), Some(50.0));
        assert_eq!((entry.about("model_id"), entry.about("max_concurrency")), (Some("m"), Some("8")));
        assert_eq!((entry.name().as_str(), entry.metric("latencies")), ("1a2b3c4d5e", None));
        let wanted = |key: &str, value: &str| [(key.to_owned(), value.to_owned())];
        assert!(entry.fits(&wanted("commit", "1a2b3c4d5e6f7")) && !entry.fits(&wanted("branch", "main")));
        assert!(Entry::new(&Dict::new(), "", "", &[]).is_err());
    }

    #[test]
    fn jobs_that_add_at_once_lose_no_entry() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::at(directory.path().join("h"));
        assert!(matches!(history.entries(), Err(HistoryError::Missing { .. })));
        std::thread::scope(|scope| {
            for job in 0..8_u32 {
                let history = &history;
                scope.spawn(move || {
                    for run in 0..5_u32 {
                        let number = f64::from(job * 10 + run + 1);
                        let entry = entry(number, 1 + run as usize, &[]);
                        assert!(history.add(&entry, &result(number), None).unwrap());
                        history.reindex().unwrap();
                    }
                });
            }
        });
        let (entries, problems) = history.entries().unwrap();
        assert_eq!((entries.len(), problems.len()), (40, 0));
        assert!(entries.windows(2).all(|pair| pair[0].time <= pair[1].time));
        assert!(std::fs::read(history.directory().join(INDEX)).unwrap().starts_with(b"PAR1"));
    }

    #[test]
    fn a_result_is_kept_once_and_gets_new_tags() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::at(directory.path());
        let first = entry(2.0, 3, &[("branch", "main"), ("gpu", "l4")]);
        assert!(history.add(&first, &result(2.0), None).unwrap());
        assert!(!history.add(&entry(2.0, 3, &[("gpu", "h200")]), &result(2.0), None).unwrap());
        let (entries, _) = history.entries().unwrap();
        assert_eq!(
            (entries.len(), entries[0].about("gpu"), entries[0].about("branch")),
            (1, Some("h200"), Some("main"))
        );
        let text = std::fs::read_to_string(history.result(&first.id)).unwrap();
        assert_eq!(parse(&text).unwrap().as_dict(), Some(&result(2.0)));
    }

    #[test]
    fn a_run_is_recognized_in_another_file() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::at(directory.path());
        let first = entry(2.0, 3, &[("gpu", "l4")]);
        history.add(&first, &result(2.0), None).unwrap();
        let detailed = parse(&dumps(&Value::Dict(result(2.0))).replace("[1.0]", "[1.0, 2.0]")).unwrap();
        let again = Entry::new(detailed.as_dict().unwrap(), &first.time, "r.rows", &[]).unwrap();
        assert!(again.id != first.id && history.same_run(&again).is_some_and(|known| known.id == first.id));
        assert_eq!(history.same_run(&entry(3.0, 3, &[])).or(history.same_run(&entry(2.0, 4, &[]))), None);
    }

    #[test]
    fn what_a_crash_leaves_is_no_entry() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::at(directory.path());
        let one = entry(2.0, 3, &[]);
        history.add(&one, &result(2.0), None).unwrap();
        std::fs::create_dir_all(directory.path().join(RUNS).join(format!("{UNFINISHED}1-x"))).unwrap();
        let broken = directory.path().join(RUNS).join("broken");
        std::fs::create_dir_all(&broken).unwrap();
        std::fs::write(broken.join(ENTRY), r#"{"version": 1, "id": "#).unwrap();
        let (entries, problems) = history.entries().unwrap();
        assert_eq!((entries.len(), problems.len()), (1, 1));
        history.remove(&[&one.id]).unwrap();
        assert_eq!(history.entries().unwrap().0, []);
        history.reindex().unwrap();
    }
}
