"""The broker's clock as seen from here, so that an override ends when it says whatever the clock of this machine does.

Each answer of the broker that names a time bounds it: that moment lies between the sending of the request and the
receipt of the answer. The bounds are kept against a steady clock, which no step of the wall clock moves; their
intersection is the measurement. Before the first one the wall clock is all there is.
"""

import time
from collections import deque
from collections.abc import Callable

SAMPLES_MAX = 64
"""Bounds kept; beyond it the oldest goes."""
SAMPLE_AGE_MICROS_MAX = 600_000_000
"""Bounds older than this are forgotten: two clocks drift apart."""


def _wall_micros() -> int:
    return time.time_ns() // 1000


if hasattr(time, "CLOCK_BOOTTIME"):
    # Goes on while the machine is suspended; monotonic time on Linux does not.
    def steady_micros() -> int:
        """Microseconds of a clock that is never set."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
else:  # pragma: no cover

    def steady_micros() -> int:
        """Microseconds of a clock that is never set."""
        return time.monotonic_ns() // 1000


class BrokerClock:
    """Time in microseconds since the epoch as the broker counts it."""

    def __init__(self, wall: Callable[[], int] = _wall_micros, steady: Callable[[], int] = steady_micros) -> None:
        self._wall = wall
        self._steady = steady
        self._base: int | None = None
        self._error: int | None = None
        self._samples: deque[tuple[int, int, int]] = deque(maxlen=SAMPLES_MAX)

    def now(self) -> int:
        """Now, in microseconds since the epoch."""
        base = self._base
        return self._wall() if base is None else self._steady() + base

    def steady(self) -> int:
        """The clock that ``sent`` and ``received`` of ``observe`` are read from."""
        return self._steady()

    @property
    def measured(self) -> bool:
        """Whether the broker's time is known."""
        return self._base is not None

    @property
    def offset_micros(self) -> int:
        """How far the wall clock of this machine is behind the broker's; 0 before it is known."""
        return 0 if self._base is None else self.now() - self._wall()

    @property
    def error_micros(self) -> int | None:
        """How far the measurement may be off, either way."""
        return self._error

    def observe(self, earliest: int, latest: int, sent: int, received: int) -> None:
        """The broker's clock stood between ``earliest`` and ``latest`` at some moment of ``sent`` to ``received``."""
        low, high = earliest - received, latest - sent
        if low > high:
            return
        samples = self._samples
        samples.append((received, low, high))
        while samples and received - samples[0][0] > SAMPLE_AGE_MICROS_MAX:
            samples.popleft()
        # From the newest back, as long as they agree: where they do not, one of the clocks was set in between.
        least, most = low, high
        for at in range(len(samples) - 2, -1, -1):
            _, low, high = samples[at]
            if low > most or high < least:
                for _ in range(at + 1):
                    samples.popleft()
                break
            least, most = max(least, low), min(most, high)
        self._error = (most - least) // 2
        self._base = (least + most) // 2
