"""Counters of a client."""

import threading


class Metrics:
    """Counters by name; they only grow."""

    def __init__(self) -> None:
        self.reset_lock()
        self._counts: dict[str, int] = {}

    def reset_lock(self) -> None:
        """After a fork: the lock may have been held by a thread that is not here."""
        # Reentrant: a signal handler may emit while this very thread counts.
        self._lock = threading.RLock()

    def add(self, name: str, count: int = 1) -> None:
        """Counts."""
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + count

    def get(self, name: str) -> int:
        """One counter."""
        return self._counts.get(name, 0)

    def snapshot(self) -> dict[str, int]:
        """All counters."""
        with self._lock:
            return dict(self._counts)
