//! Who waits for news of which session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Waiters by session; a session nobody waits for takes no place.
#[derive(Debug, Default)]
pub struct Wakers(Mutex<HashMap<String, (usize, Arc<Notify>)>>);

/// One waiter.
#[derive(Debug)]
pub struct Waker {
    wakers: Arc<Wakers>,
    session_id: String,
    /// Told of news.
    pub notify: Arc<Notify>,
}

impl Wakers {
    pub fn waker(self: &Arc<Self>, session_id: &str) -> Waker {
        let mut wakers = self.lock();
        let (count, notify) = wakers.entry(session_id.to_owned()).or_default();
        *count += 1;
        Waker { notify: Arc::clone(notify), wakers: Arc::clone(self), session_id: session_id.to_owned() }
    }

    pub fn wake(&self, session_id: &str) {
        if let Some((_, notify)) = self.lock().get(session_id) {
            notify.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (usize, Arc<Notify>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        let mut wakers = self.wakers.lock();
        if let Some((count, _)) = wakers.get_mut(&self.session_id) {
            *count -= 1;
            if *count == 0 {
                wakers.remove(&self.session_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_waiters_that_are_gone() {
        let wakers = Arc::new(Wakers::default());
        let (first, second) = (wakers.waker("s"), wakers.waker("s"));
        drop(first);
        assert_eq!(wakers.lock().len(), 1);
        drop(second);
        assert!(wakers.lock().is_empty());
    }
}
