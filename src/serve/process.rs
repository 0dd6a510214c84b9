//! What the system says of this process.

use procfs::process::Process;

/// Numbers of this process; what the system does not tell is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Memory in RAM.
    pub resident_bytes: Option<u64>,
    /// Address space.
    pub virtual_bytes: Option<u64>,
    /// Processor time, of user and system.
    pub cpu_seconds: Option<f64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
    /// As many as there may be.
    pub max_fds: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Since 1970.
    pub start_seconds: Option<f64>,
}

impl Usage {
    /// As it is now.
    #[must_use]
    pub fn now() -> Self {
        let Ok(process) = Process::myself() else { return Self::default() };
        let stat = process.stat().ok();
        let stat = stat.as_ref();
        let ticks = procfs::ticks_per_second().max(1);
        Self {
            resident_bytes: stat.map(|stat| stat.rss * procfs::page_size()),
            virtual_bytes: stat.map(|stat| stat.vsize),
            cpu_seconds: stat.map(|stat| seconds(stat.utime + stat.stime, ticks)),
            open_fds: process.fd_count().ok().map(|count| count as u64),
            max_fds: process.limits().ok().and_then(|limits| match limits.max_open_files.soft_limit {
                procfs::process::LimitValue::Value(value) => Some(value),
                procfs::process::LimitValue::Unlimited => None,
            }),
            threads: stat.and_then(|stat| u64::try_from(stat.num_threads).ok()),
            start_seconds: stat.and_then(|stat| {
                let boot = procfs::boot_time_secs().ok()?;
                Some(seconds(boot * ticks + stat.starttime, ticks))
            }),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "below 2^53 nothing is lost")]
fn seconds(count: u64, per_second: u64) -> f64 {
    count as f64 / per_second as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_of_this_process() {
        let usage = Usage::now();
        assert!(usage.resident_bytes.is_some_and(|bytes| bytes > 1_000_000), "{usage:?}");
        assert!(usage.open_fds.is_some_and(|count| count >= 3), "{usage:?}");
        assert!(usage.start_seconds.is_some_and(|at| at > 1e9), "{usage:?}");
        assert!(usage.threads.is_some_and(|count| count >= 1), "{usage:?}");
        assert!(usage.cpu_seconds.is_some() && usage.max_fds.is_some(), "{usage:?}");
    }
}
