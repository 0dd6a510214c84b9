"""How far the overrides a client answers from can be relied on."""

from enum import Enum


class State(str, Enum):
    """State of a client. ``resolve`` answers in every one of them."""

    NOT_READY = "not_ready"
    """Nothing was read yet: every answer is the global schema."""
    READY = "ready"
    """Everything published was read, and the source answers."""
    STALE = "stale"
    """The source does not answer, or a snapshot is all there is: answers come from what was last known."""
    ERROR = "error"
    """As before, for longer than the grace, or the source refuses: somebody must look."""
    DISABLED = "disabled"
    """Turned off by REFLEX_DISABLE=1: nothing is read, sent or waited for."""

    def __str__(self) -> str:
        return self.value
