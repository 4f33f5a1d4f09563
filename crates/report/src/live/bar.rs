//! Status lines and progress bars from a run's events; without a terminal, a line every few seconds. A separate
//! thread reads the counters ten times per second and never touches the workers.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tacho_core::{Counters, EventSink, Mutex, RunEvent, Work, event::Note};

use super::{monitor::Watched, reading::clock};
use crate::style::{USUAL_COLUMNS, columns_of, harmless, harmless_line};
use crate::{fitted::fitted, sentence};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Yes, if stderr is a terminal.
    Shown,
    /// No (`--disable-tqdm`); the wait of the ready check is still drawn.
    Hidden,
}

const HERTZ: u8 = 10;
/// Interval between two lines without a terminal; shorter work prints none.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Shows events: status lines on stdout, warnings and bars on stderr.
pub struct Live {
    progress: Progress,
    color: bool,
    /// Where bars are drawn; `None` if stderr is not a terminal.
    target: Option<fn() -> ProgressDrawTarget>,
    /// Whether the status lines go to a terminal.
    is_read: bool,
    state: Arc<Mutex<State>>,
}

struct State {
    out: Box<dyn Write + Send>,
    warnings: Box<dyn Write + Send>,
    /// The screen area of the bars, while there are any.
    area: Option<MultiProgress>,
    /// The active bars, the outermost first: a run inside a sweep has its own below the sweep's.
    running: Vec<Running>,
}

/// A bar, if one is drawn, and the thread that updates it or prints lines instead.
struct Running {
    bar: Option<ProgressBar>,
    ticker: Ticker,
}

impl Live {
    /// Shows events on this process's stdout and stderr. Color is used unless `NO_COLOR` is set.
    pub fn new(progress: Progress) -> Self {
        let color = crate::style::colors();
        let target: fn() -> ProgressDrawTarget = || ProgressDrawTarget::stderr_with_hz(HERTZ);
        let target = io::stderr().is_terminal().then_some(target);
        let mut live = Self::onto(progress, color, target, Box::new(crate::out()), Box::new(io::stderr()));
        live.is_read = io::stdout().is_terminal();
        live
    }

    fn onto(
        progress: Progress,
        color: bool,
        target: Option<fn() -> ProgressDrawTarget>,
        out: Box<dyn Write + Send>,
        warnings: Box<dyn Write + Send>,
    ) -> Self {
        Live {
            progress,
            color,
            target,
            is_read: false,
            state: Arc::new(Mutex::new(State { out, warnings, area: None, running: Vec::new() })),
        }
    }

    /// The text of a note: vLLM's wording for a file, tacho's for a terminal, no wider than the screen, which vLLM's
    /// preamble would fill.
    fn status(&self, note: &Note) -> Option<String> {
        match self.is_read {
            true => {
                let width = columns_of(&io::stdout()).unwrap_or(USUAL_COLUMNS);
                let text = match note {
                    Note::Preamble { brief, .. } if brief.is_empty() => return None,
                    Note::Preamble { brief, .. } => brief.clone(),
                    other => sentence::for_person(other, width),
                };
                Some(on_screen(&harmless(&text), width))
            }
            false => Some(harmless(&sentence::of(note))),
        }
    }

    fn start(
        &self,
        target: fn() -> ProgressDrawTarget,
        total: u64,
        work: Work,
        text: impl Fn(&ProgressBar) + Send + 'static,
    ) {
        let mut state = self.state.lock();
        let area = state.area.get_or_insert_with(|| MultiProgress::with_draw_target(target()));
        let bar = area.add(ProgressBar::new(total));
        // A bar yields space to the text next to it; without a total there is none.
        let template = match total {
            0 => "{prefix} {msg}".to_owned(),
            _ => format!("{{prefix}} |{{bar:{}}}| {{msg}}", bar_width(width())),
        };
        bar.set_style(ProgressStyle::with_template(&template).expect("the template is valid"));
        bar.set_prefix(sentence::title(work));
        let drawn = bar.clone();
        let period = Duration::from_secs(1) / u32::from(HERTZ);
        let ticker = Ticker::start(Duration::ZERO, period, move || text(&drawn));
        state.running.push(Running { bar: Some(bar), ticker });
    }

    fn start_work(&self, work: Work, total: u64, counters: Arc<Counters>) {
        if self.progress == Progress::Hidden {
            return;
        }
        let (color, size, watched) = (self.color, sentence::unit(work).1, Watched::new(work, total, counters));
        let Some(target) = self.target else { return self.start_heartbeat(move || watched.snapshot().heartbeat()) };
        self.start(target, total, work, move |bar| {
            let now = watched.snapshot();
            bar.set_position((now.finished * size).min(total));
            bar.set_message(now.line(available(work), color));
        });
    }

    /// Prints a line now and then.
    fn start_heartbeat(&self, line: impl Fn() -> String + Send + 'static) {
        let shared = Arc::clone(&self.state);
        let ticker = Ticker::start(HEARTBEAT, HEARTBEAT, move || {
            // If the lock is taken, its holder is about to print or to end this.
            if let Some(mut state) = shared.try_lock() {
                state.say(|state| &mut state.warnings, &line());
            }
        });
        self.state.lock().running.push(Running { bar: None, ticker });
    }

    fn start_wait(&self, work: Work, seconds: u64) {
        let began = Instant::now();
        let Some(target) = self.target else { return self.start_heartbeat(move || waiting(began, seconds)) };
        self.start(target, seconds, work, move |bar| {
            let elapsed = began.elapsed().as_secs().min(seconds);
            bar.set_position(elapsed);
            bar.set_message(format!("{} elapsed, {} remaining", clock(elapsed), clock(seconds - elapsed)));
        });
    }
}

fn on_screen(text: &str, width: usize) -> String {
    fitted(text, width).trim_end_matches('\n').to_owned()
}

fn width() -> usize {
    columns_of(&io::stderr()).unwrap_or(USUAL_COLUMNS)
}

fn bar_width(width: usize) -> usize {
    if width >= 100 { 30 } else { 10 }
}

fn waiting(began: Instant, seconds: u64) -> String {
    format!("waiting for the server: {} of at most {}", clock(began.elapsed().as_secs()), clock(seconds))
}

/// Columns for the text next to a bar.
fn available(work: Work) -> usize {
    width().saturating_sub(sentence::title(work).chars().count() + bar_width(width()) + 5)
}

impl EventSink for Live {
    fn event(&self, event: RunEvent) {
        match event {
            RunEvent::Status(note) => {
                if let Some(text) = self.status(&note) {
                    self.state.lock().say(|state| &mut state.out, &text);
                }
            }
            RunEvent::Warning(note) => {
                let line = format!("warning: {}", harmless_line(&sentence::of(&note)));
                let line = if self.target.is_some() { on_screen(&line, width()) } else { line };
                self.state.lock().say(|state| &mut state.warnings, &line);
            }
            RunEvent::Started { work, total, counters } => self.start_work(work, total, counters),
            RunEvent::Waiting { work, seconds } => self.start_wait(work, seconds),
            RunEvent::Finished => self.state.lock().finish(),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        while !state.running.is_empty() {
            state.finish();
        }
    }
}

impl State {
    /// Writes a line, with the bar hidden meanwhile. A reader that disconnected does not end a run.
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
    fn finish(self) {
        self.ticker.finish();
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Calls a function periodically on a separate thread.
struct Ticker {
    over: Arc<AtomicBool>,
    /// `None` if no thread could be started: the run continues without progress.
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(first: Duration, period: Duration, beat: impl Fn() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&over);
        let tick = move || {
            let mut next = Instant::now() + first;
            while !stopped.load(Ordering::Acquire) {
                let now = Instant::now();
                if now >= next {
                    beat();
                    next = now + period;
                }
                thread::park_timeout(next.saturating_duration_since(Instant::now()));
            }
        };
        let thread = thread::Builder::new().name("progress".into()).spawn(tick).ok();
        Ticker { over, thread }
    }

    fn finish(self) {
        self.over.store(true, Ordering::Release);
        let Some(thread) = self.thread else { return };
        thread.thread().unpark();
        // A panic of the ticker has been reported and must not end the run.
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
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
        live.event(RunEvent::status("Burstiness factor: 1.0 (Poisson process)"));
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
        let bar = live.state.lock().running.last().and_then(|running| running.bar.clone()).unwrap();
        while bar.position() != 3 {
            thread::yield_now();
        }
        live.event(RunEvent::Finished);
        assert!(bar.is_finished());
        assert!(live.state.lock().running.is_empty());
    }

    #[test]
    fn hidden_progress_still_shows_the_wait() {
        let (live, ..) = live(Progress::Hidden);
        live.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: Arc::default() });
        assert!(live.state.lock().running.is_empty());
        live.event(RunEvent::Waiting { work: Work::WaitingForServer, seconds: 30 });
        assert!(!live.state.lock().running.is_empty());
        live.event(RunEvent::Finished);
    }

    #[test]
    fn without_a_terminal_there_are_lines_and_no_bar() {
        let stderr = Written::default();
        let live = Live::onto(Progress::Shown, true, None, Box::new(io::sink()), Box::new(stderr.clone()));
        live.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: Arc::default() });
        assert!(live.state.lock().running[0].bar.is_none());
        live.event(RunEvent::Finished);
        assert_eq!((stderr.text(), live.state.lock().running.len()), (String::new(), 0));
    }

    #[test]
    fn bars_nest() {
        let (live, ..) = live(Progress::Shown);
        live.event(RunEvent::Started { work: Work::Sweep, total: 2, counters: Arc::default() });
        let outer = live.state.lock().running[0].bar.clone().unwrap();
        live.event(RunEvent::Started { work: Work::Benchmark, total: 4, counters: Arc::default() });
        assert_eq!(live.state.lock().running.len(), 2);
        live.event(RunEvent::Finished);
        assert!(!outer.is_finished() && live.state.lock().running.len() == 1);
        live.event(RunEvent::Finished);
        assert!(outer.is_finished());
    }
}
