//! The process, the HTTP service, and what was built.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::CORE_VERSION;
use crate::serve::Served;
use crate::serve::metrics::family::{Family, Labels, float};
use crate::serve::process::Usage;

/// Of the process and its service.
pub fn families(served: &Served) -> Vec<Family> {
    let mut families = http(served);
    families.extend(process(&Usage::now()));
    let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
    let versions = [("version", env!("CARGO_PKG_VERSION")), ("core", CORE_VERSION), ("librdkafka", &librdkafka)];
    let build = versions.map(|(name, version)| (name, version.to_owned())).to_vec();
    families.push(Family::gauge("reflex_build_info", "What is running; always 1.").number(build, 1.0));
    families
}

fn http(served: &Served) -> Vec<Family> {
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
    let answers: Vec<(&str, u64)> = classes.into_iter().zip(served.answers.iter().map(get)).collect();
    let one = |name, help, count| Family::counter(name, help).count(Labels::new(), get(count));
    vec![
        Family::counter("reflex_http_answers", "Answers over HTTP, by class of status.").counts("class", &answers),
        one("reflex_http_connections", "Connections accepted.", &served.connections),
        Family::counter("reflex_http_limit_reached", "How often a client ran into a limit of the service.")
            .counts("limit", &served.limits()),
        one("reflex_http_hosts_refused", "Requests for a name this process is not known under.", &served.hosts_refused),
    ]
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
