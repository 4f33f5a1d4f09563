//! CPU pinning and CPU time.
#![expect(unsafe_code, reason = "system calls")]

use std::time::Duration;

/// The cores of server and client, `TACHO_BENCH_CORES=0,1` by default. Avoid two hardware threads of one core.
pub(crate) fn cores() -> (usize, usize) {
    let given = std::env::var("TACHO_BENCH_CORES").unwrap_or_default();
    let parsed = given.split_once(',').and_then(|(server, client)| Some((server.parse().ok()?, client.parse().ok()?)));
    parsed.unwrap_or((0, 1))
}

/// Pins this process to a core, if there are enough.
pub(crate) fn pin(core: usize) {
    if std::thread::available_parallelism().map_or(1, std::num::NonZero::get) < 2 {
        return;
    }
    // SAFETY: the set lives through the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// CPU time of this process so far, user and system.
pub(crate) fn cpu_time() -> Duration {
    usage(libc::RUSAGE_SELF)
}

/// CPU time of child processes that have exited.
pub(crate) fn cpu_time_of_children() -> Duration {
    usage(libc::RUSAGE_CHILDREN)
}

fn usage(whose: libc::c_int) -> Duration {
    // SAFETY: all-zero is a valid rusage, and it lives through the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whose, &raw mut usage);
        usage
    };
    let time = |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Level-triggered readiness of sockets.
pub(crate) struct Epoll {
    fd: libc::c_int,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    pub(crate) fn new() -> Self {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(0) };
        Epoll { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; 1024] }
    }

    pub(crate) fn add(&self, socket: libc::c_int, token: u64) {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: the event lives through the call.
        unsafe { libc::epoll_ctl(self.fd, libc::EPOLL_CTL_ADD, socket, &raw mut event) };
    }

    /// Calls `ready` with the token of each readable socket; waits at most `until`.
    pub(crate) fn wait(&mut self, until: Option<Duration>, mut ready: impl FnMut(usize)) {
        let millis = until.map_or(1000, |until| (until.as_micros().div_ceil(1000) as i32).min(1000));
        // SAFETY: the buffer has room for the requested number of events.
        let count = unsafe { libc::epoll_wait(self.fd, self.events.as_mut_ptr(), self.events.len() as i32, millis) };
        for event in &self.events[..count.max(0) as usize] {
            ready(event.u64 as usize);
        }
    }
}
