//! System calls for polling, limits and memory that the standard library lacks. Those for sockets are in `socket.rs`.
#![expect(unsafe_code, reason = "system calls")]

#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;
use std::{io, os::fd::RawFd};

/// The events that a socket is polled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    ReadWrite,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) token: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// Converts -1 to the last system error.
pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Maximum number of sockets that one wait reports.
pub(crate) const MAX_READY: usize = 1024;

#[cfg(target_os = "linux")]
mod poller {
    use super::*;

    /// Polls sockets with level-triggered epoll: one read per wake-up is enough.
    pub(crate) struct Poller {
        epoll: OwnedFd,
        events: Vec<libc::epoll_event>,
        precise: bool,
    }

    impl Poller {
        pub(crate) fn new() -> io::Result<Self> {
            // SAFETY: no pointers; the descriptor is owned from here on.
            let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
            Ok(Poller { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; MAX_READY], precise: true })
        }

        pub(crate) fn add(&mut self, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
            self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
        }

        pub(crate) fn modify(&mut self, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
            self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
        }

        /// Nothing to do: closing a socket removes it from the set.
        pub(crate) fn remove(&mut self, _fd: RawFd) {}

        fn control(&mut self, op: libc::c_int, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
            let write = if interest == Interest::ReadWrite { libc::EPOLLOUT } else { 0 };
            let mut event = libc::epoll_event { events: (libc::EPOLLIN | write) as u32, u64: token as u64 };
            // SAFETY: `event` lives through the call.
            check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd, &mut event) }).map(drop)
        }

        /// Waits at most `timeout` and fills `ready`.
        pub(crate) fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
            ready.clear();
            let count = match self.wait_raw(timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                other => other?,
            };
            ready.extend(self.events[..count].iter().map(|event| {
                let flags = event.events as libc::c_int;
                Ready {
                    token: event.u64 as usize,
                    readable: flags & (libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR) != 0,
                    writable: flags & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) != 0,
                }
            }));
            Ok(())
        }

        fn wait_raw(&mut self, timeout: Duration) -> io::Result<usize> {
            let (fd, available) = (self.epoll.as_raw_fd(), self.events.len() as libc::c_int);
            if self.precise && !timeout.is_zero() {
                let time = libc::timespec {
                    tv_sec: timeout.as_secs() as libc::time_t,
                    tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
                };
                // SAFETY: the buffer has room for `available` events and the time lives through the call.
                let result = unsafe {
                    libc::syscall(
                        libc::SYS_epoll_pwait2,
                        fd,
                        self.events.as_mut_ptr(),
                        available,
                        &raw const time,
                        std::ptr::null::<libc::sigset_t>(),
                        0_usize,
                    )
                };
                if result >= 0 {
                    return Ok(result as usize);
                }
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    return Err(error);
                }
                // On kernels before 5.11 (ENOSYS) or in a sandbox (EPERM and others): milliseconds, rounded down so
                // that the caller's spin covers the rest. `epoll_wait` reports any other error too.
                self.precise = false;
            }
            let millis = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
            // SAFETY: the buffer has room for `available` events.
            check(unsafe { libc::epoll_wait(fd, self.events.as_mut_ptr(), available, millis) })
                .map(|count| count as usize)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod poller {
    use super::*;

    /// Polls sockets with `poll`, which every Unix has.
    pub(crate) struct Poller {
        sockets: Vec<libc::pollfd>,
        tokens: Vec<usize>,
    }

    impl Poller {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Poller { sockets: Vec::new(), tokens: Vec::new() })
        }

        pub(crate) fn add(&mut self, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
            self.sockets.push(libc::pollfd { fd, events: flags(interest), revents: 0 });
            self.tokens.push(token);
            Ok(())
        }

        pub(crate) fn modify(&mut self, fd: RawFd, _token: usize, interest: Interest) -> io::Result<()> {
            if let Some(socket) = self.sockets.iter_mut().find(|socket| socket.fd == fd) {
                socket.events = flags(interest);
            }
            Ok(())
        }

        pub(crate) fn remove(&mut self, fd: RawFd) {
            if let Some(at) = self.sockets.iter().position(|socket| socket.fd == fd) {
                self.sockets.swap_remove(at);
                self.tokens.swap_remove(at);
            }
        }

        pub(crate) fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
            ready.clear();
            let millis = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
            // SAFETY: the array lives through the call and its length is passed with it.
            let count = unsafe { libc::poll(self.sockets.as_mut_ptr(), self.sockets.len() as libc::nfds_t, millis) };
            match check(count) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Err(_) => return Ok(()),
                Ok(_) => {}
            }
            let failed = libc::POLLHUP | libc::POLLERR;
            ready.extend(self.sockets.iter().zip(&self.tokens).filter(|(socket, _)| socket.revents != 0).map(
                |(socket, &token)| Ready {
                    token,
                    readable: socket.revents & (libc::POLLIN | failed) != 0,
                    writable: socket.revents & (libc::POLLOUT | failed) != 0,
                },
            ));
            Ok(())
        }
    }

    fn flags(interest: Interest) -> libc::c_short {
        match interest {
            Interest::Read => libc::POLLIN,
            Interest::ReadWrite => libc::POLLIN | libc::POLLOUT,
        }
    }
}

pub(crate) use poller::Poller;

/// Raises the limit of open files as far as the system allows, and returns it.
pub(crate) fn raise_open_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return 1024;
        }
        if limit.rlim_cur < limit.rlim_max {
            let raised = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) == 0 {
                limit.rlim_cur = limit.rlim_max;
            }
        }
    }
    limit.rlim_cur
}

/// Sets the timer slack of this thread to the minimum; the default delays timers by up to 50 µs.
pub(crate) fn sharpen_timers() {
    #[cfg(target_os = "linux")]
    // SAFETY: no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize, 0_usize, 0_usize, 0_usize);
    }
}

/// The processors that this thread may use; empty if unknown.
pub fn allowed_processors() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    // SAFETY: all-zero is a valid set, and it lives through the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) == 0 {
            return (0..libc::CPU_SETSIZE as usize).filter(|at| libc::CPU_ISSET(*at, &set)).collect();
        }
    }
    Vec::new()
}

/// Restricts this thread, and threads it starts, to these processors; returns `false` if that is not possible.
pub fn pin_thread(processors: &[usize]) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: all-zero is a valid set, and it lives through the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &at in processors.iter().filter(|at| **at < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(at, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = processors;
        false
    }
}

/// Returns free memory to the system. Otherwise the allocator keeps the memory of ended threads.
pub fn return_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: no pointers.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Makes `epoll_pwait2` fail with `errno` on this thread, as sandboxes do; returns `false` if filters are not
    /// allowed.
    fn deny_epoll_pwait2(errno: libc::c_int) -> bool {
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_epoll_pwait2 as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the program and its steps live through both calls.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_usize, 0_usize, 0_usize, 0_usize) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER as usize, &raw const program) == 0
        }
    }

    #[test]
    fn a_sandbox_without_epoll_pwait2_waits_in_milliseconds() {
        for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
            let wait = move || {
                if !deny_epoll_pwait2(errno) {
                    return;
                }
                let mut poller = Poller::new().unwrap();
                (0..2).for_each(|_| poller.wait(Duration::from_millis(1), &mut Vec::new()).unwrap());
            };
            std::thread::spawn(wait).join().unwrap();
        }
    }
}
