//! Status lines and progress bars from a run's events. A thread of its own reads the counters ten times a second;
//! the workers are never touched.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tacho_core::{Counters, EventSink, RunEvent, Work};

use crate::sentence;
use crate::style::{harmless, harmless_line};

/// Whether the progress of work is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Yes, where stderr is a terminal.
    Shown,
    /// No (`--disable-tqdm`); the wait of the ready check is still drawn.
    Hidden,
}

/// Updates of a bar per second.
const HERTZ: u8 = 10;

/// Shows events: status lines on stdout, warnings and bars on stderr.
pub struct Live {
    progress: Progress,
    colour: bool,
    /// Where bars are drawn; nothing when stderr is not a terminal.
    target: Option<fn() -> ProgressDrawTarget>,
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    warnings: Box<dyn Write + Send>,
    /// The screen area of the bars while there are any.
    area: Option<MultiProgress>,
    /// The bars under way, the outermost first: a run inside a sweep has its own below the sweep's.
    running: Vec<Running>,
}

/// A bar and the thread that moves it.
struct Running {
    bar: ProgressBar,
    over: Arc<AtomicBool>,
    ticker: JoinHandle<()>,
}

impl Live {
    /// Shows events on this process's stdout and stderr. Colour is used unless `NO_COLOR` is set.
    pub fn new(progress: Progress) -> Self {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let target: fn() -> ProgressDrawTarget = || ProgressDrawTarget::stderr_with_hz(HERTZ);
        let target = io::stderr().is_terminal().then_some(target);
        Self::onto(progress, colour, target, Box::new(io::stdout()), Box::new(io::stderr()))
    }

    fn onto(
        progress: Progress,
        colour: bool,
        target: Option<fn() -> ProgressDrawTarget>,
        out: Box<dyn Write + Send>,
        warnings: Box<dyn Write + Send>,
    ) -> Self {
        Live { progress, colour, target, state: Mutex::new(State { out, warnings, area: None, running: Vec::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, total: u64, work: Work, text: impl FnMut(&ProgressBar) + Send + 'static) {
        let mut state = self.state();
        let Some(target) = self.target else { return };
        let area = state.area.get_or_insert_with(|| MultiProgress::with_draw_target(target()));
        let bar = area.add(ProgressBar::new(total));
        bar.set_style(ProgressStyle::with_template("{prefix} |{bar:30}| {msg}").expect("the template is valid"));
        bar.set_prefix(sentence::title(work));
        state.running.push(Running::start(bar, text));
    }

    fn start_work(&self, work: Work, total: u64, counters: Arc<Counters>) {
        if self.progress == Progress::Hidden {
            return;
        }
        let (colour, began) = (self.colour, Instant::now());
        let (unit, size) = sentence::unit(work);
        self.start(total, work, move |bar| {
            let (finished, failed, tokens, _) = counters.read();
            let (done, all) = (finished / size, total / size);
            let read = Reading { finished: done, failed, tokens, total: all, unit, elapsed: began.elapsed() };
            bar.set_position(finished.min(total));
            bar.set_message(read.text(colour));
        });
    }

    fn start_wait(&self, work: Work, seconds: u64) {
        let began = Instant::now();
        self.start(seconds, work, move |bar| {
            let elapsed = began.elapsed().as_secs().min(seconds);
            bar.set_position(elapsed);
            bar.set_message(format!("{} elapsed, {} remaining", clock(elapsed), clock(seconds - elapsed)));
        });
    }
}

impl EventSink for Live {
    fn event(&self, event: RunEvent) {
        match event {
            RunEvent::Status(note) => self.state().say(|state| &mut state.out, &harmless(&sentence::of(&note))),
            RunEvent::Warning(note) => {
                let line = format!("warning: {}", harmless_line(&sentence::of(&note)));
                self.state().say(|state| &mut state.warnings, &line);
            }
            RunEvent::Started { work, total, counters } => self.start_work(work, total, counters),
            RunEvent::Waiting { work, seconds } => self.start_wait(work, seconds),
            RunEvent::Finished => self.state().finish(),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut state = self.state();
        while !state.running.is_empty() {
            state.finish();
        }
    }
}

impl State {
    /// Writes a line, with the bar out of the way. A reader that went away is no reason to end a run.
    fn say(&mut self, stream: fn(&mut State) -> &mut Box<dyn Write + Send>, line: &str) {
        let area = self.area.clone();
        let mut write = || {
            let out = stream(self);
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        };
        match area {
            Some(area) => area.suspend(write),
            None => write(),
        }
    }

    /// Takes down the innermost bar.
    fn finish(&mut self) {
        if let Some(running) = self.running.pop() {
            running.finish();
        }
        if self.running.is_empty() {
            self.area = None;
        }
    }
}

impl Running {
    fn start(bar: ProgressBar, mut update: impl FnMut(&ProgressBar) + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (drawn, told) = (bar.clone(), Arc::clone(&over));
        let ticker = thread::spawn(move || {
            while !told.load(Ordering::Acquire) {
                update(&drawn);
                thread::park_timeout(Duration::from_secs(1) / u32::from(HERTZ));
            }
        });
        Running { bar, over, ticker }
    }

    fn finish(self) {
        self.over.store(true, Ordering::Release);
        self.ticker.thread().unpark();
        // A panic of the ticker has already been told and must not end the run.
        let _ = self.ticker.join();
        self.bar.finish_and_clear();
    }
}

/// The counters at one moment.
struct Reading {
    finished: u64,
    failed: u64,
    tokens: u64,
    total: u64,
    unit: &'static str,
    elapsed: Duration,
}

impl Reading {
    /// `3/10 [00:02<00:05, 1.50 req/s, 120 tok/s, 1 failed]`
    fn text(&self, colour: bool) -> String {
        let seconds = self.elapsed.as_secs_f64();
        let left = match self.finished {
            0 => "?".to_owned(),
            finished => clock((seconds * self.total.saturating_sub(finished) as f64 / finished as f64) as u64),
        };
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let mut text = format!(
            "{}/{} [{}<{left}, {:.2} {}",
            self.finished,
            self.total,
            clock(self.elapsed.as_secs()),
            rate(self.finished),
            self.unit
        );
        if self.tokens > 0 {
            text += &format!(", {:.0} tok/s", rate(self.tokens));
        }
        if self.failed > 0 {
            let failed = format!("{} failed", self.failed);
            text += &if colour { format!(", \x1b[31m{failed}\x1b[0m") } else { format!(", {failed}") };
        }
        text + "]"
    }
}

/// `02:03`, or `1:02:03` from an hour on.
fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes:02}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::event::ServeNote;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn live(progress: Progress) -> (Live, Written, Written) {
        let (out, warnings) = (Written::default(), Written::default());
        let target: fn() -> ProgressDrawTarget = ProgressDrawTarget::hidden;
        let live = Live::onto(progress, false, Some(target), Box::new(out.clone()), Box::new(warnings.clone()));
        (live, out, warnings)
    }

    #[test]
    fn lines_go_to_their_streams_even_under_a_bar() {
        let (live, out, warnings) = live(Progress::Shown);
        live.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: Arc::default() });
        live.event(RunEvent::status(ServeNote::Burstiness(1.0)));
        live.event(RunEvent::warning("slow\x1b[2J"));
        live.event(RunEvent::Finished);
        assert_eq!(out.text(), "Burstiness factor: 1.0 (Poisson process)\n");
        assert_eq!(warnings.text(), "warning: slow\\x1b[2J\n");
    }

    #[test]
    fn bar_follows_the_counters_until_finished() {
        let (live, ..) = live(Progress::Shown);
        let counters = Arc::new(Counters::default());
        counters.finished.store(3, Ordering::Relaxed);
        live.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters });
        let bar = live.state().running.last().map(|running| running.bar.clone()).unwrap();
        while bar.position() != 3 {
            thread::yield_now();
        }
        live.event(RunEvent::Finished);
        assert!(bar.is_finished());
        assert!(live.state().running.is_empty());
    }

    #[test]
    fn hidden_progress_still_shows_the_wait() {
        let (live, ..) = live(Progress::Hidden);
        live.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: Arc::default() });
        assert!(live.state().running.is_empty());
        live.event(RunEvent::Waiting { work: Work::WaitingForServer, seconds: 30 });
        assert!(!live.state().running.is_empty());
        live.event(RunEvent::Finished);
    }

    #[test]
    fn nothing_is_drawn_without_a_terminal() {
        let live = Live::onto(Progress::Shown, true, None, Box::new(io::sink()), Box::new(io::sink()));
        live.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: Arc::default() });
        assert!(live.state().running.is_empty());
    }

    #[test]
    fn bars_nest() {
        let (live, ..) = live(Progress::Shown);
        live.event(RunEvent::Started { work: Work::Sweep, total: 2, counters: Arc::default() });
        let outer = live.state().running[0].bar.clone();
        live.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: Arc::default() });
        assert_eq!(live.state().running.len(), 2);
        live.event(RunEvent::Finished);
        assert!(!outer.is_finished() && live.state().running.len() == 1);
        live.event(RunEvent::Finished);
        assert!(outer.is_finished());
    }

    #[test]
    fn progress_reads_as_a_line() {
        let mut read = Reading { finished: 0, failed: 0, tokens: 0, total: 10, unit: "req/s", elapsed: Duration::ZERO };
        assert_eq!(read.text(true), "0/10 [00:00<?, 0.00 req/s]");
        read =
            Reading { finished: 4, failed: 1, tokens: 500, total: 10, unit: "req/s", elapsed: Duration::from_secs(2) };
        assert_eq!(read.text(false), "4/10 [00:02<00:03, 2.00 req/s, 250 tok/s, 1 failed]");
        assert!(read.text(true).contains("\x1b[31m1 failed\x1b[0m"));
        assert_eq!(clock(3723), "1:02:03");
    }
}
