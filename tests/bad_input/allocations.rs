//! An allocator that counts what each thread asks for.
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(calls: usize, bytes: isize) {
    // A thread that is ending has no counters any more, and nothing to measure.
    let _ = CALLS.try_with(|counter| counter.set(counter.get() + calls));
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -signed(layout.size()));
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may both be live while one is copied to the other.
        count(1, signed(size));
        count(0, -signed(layout.size()));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// What `work` returned, how often it allocated, and the most bytes it held beyond what was held before.
#[allow(dead_code, reason = "one of the tests that share this file asks")]
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    let (calls, live) = (CALLS.get(), LIVE.get());
    PEAK.set(live);
    let result = work();
    let peak = usize::try_from(PEAK.get() - live).unwrap_or(0);
    (result, CALLS.get() - calls, peak)
}

/// Bytes this thread holds now.
#[allow(dead_code, reason = "one of the tests that share this file asks")]
pub fn live() -> usize {
    usize::try_from(LIVE.get()).unwrap_or(0)
}
