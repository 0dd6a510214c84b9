//! The process, and what was built.

use crate::engine::CORE_VERSION;
use crate::serve::metrics::family::{Family, Labels, float};
use crate::serve::process::Usage;

/// Of the process.
pub fn families() -> Vec<Family> {
    let mut families = process(&Usage::now());
    let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
    let versions = [("version", env!("CARGO_PKG_VERSION")), ("core", CORE_VERSION), ("librdkafka", &librdkafka)];
    let build = versions.map(|(name, version)| (name, version.to_owned())).to_vec();
    families.push(Family::gauge("reflex_build_info", "What is running; always 1.").number(build, 1.0));
    families
}

/// Names as every dashboard for processes expects them.
fn process(usage: &Usage) -> Vec<Family> {
    let set = |family: Family, value: Option<f64>| match value {
        Some(value) => family.number(Labels::new(), value),
        None => family,
    };
    let count = |value: Option<u64>| value.map(float);
    vec![
        set(Family::bytes("process_resident_memory", "Memory in RAM."), count(usage.resident_bytes)),
        set(Family::bytes("process_virtual_memory", "Address space."), count(usage.virtual_bytes)),
        set(Family::seconds_counter("process_cpu", "Processor time, of user and system."), usage.cpu_seconds),
        set(Family::gauge("process_open_fds", "Open file descriptors."), count(usage.open_fds)),
        set(Family::gauge("process_max_fds", "File descriptors there may be."), count(usage.max_fds)),
        set(Family::gauge("process_threads", "Threads."), count(usage.threads)),
        set(Family::seconds("process_start_time", "When the process began, since 1970."), usage.start_seconds),
    ]
}
