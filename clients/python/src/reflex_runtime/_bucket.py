"""Stable selection of sessions for shadows and trials: a hash, no state, no dice.

key      = purpose 0x1F override_id 0x1F attempt_salt 0x1F session_id      UTF-8
bucket   = (murmur3_x86_32(key, seed 0) * 100_000) >> 32                   0..99_999
selected = session_id not empty and bucket < threshold(percentage)
"""

import math
from struct import unpack_from

BUCKETS = 100_000
"""Buckets in all: the grain of a percentage is 0.001."""

_MASK = 0xFFFFFFFF


def murmur3_x86_32(data: bytes, seed: int = 0) -> int:
    """Murmur3, the 32-bit variant for x86."""
    h = seed
    length = len(data)
    whole = length & ~3
    for word in unpack_from(f"<{whole >> 2}I", data):
        k = word * 0xCC9E2D51 & _MASK
        h ^= (k << 15 | k >> 17) * 0x1B873593 & _MASK
        h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & _MASK
    if whole < length:
        k = int.from_bytes(data[whole:], "little") * 0xCC9E2D51 & _MASK
        h ^= (k << 15 | k >> 17) * 0x1B873593 & _MASK
    h ^= length
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def bucket(purpose: str, override_id: str, attempt_salt: str, session_id: str) -> int:
    """The bucket of a session, 0..99_999."""
    key = "\x1f".join((purpose, override_id, attempt_salt, session_id))
    return murmur3_x86_32(key.encode("utf-8", "surrogatepass")) * BUCKETS >> 32


def threshold(percentage: float) -> int:
    """How many buckets a percentage covers: the nearest whole number of thousandths, halves up, 0..100_000.

    Rounded before it is compared: 2.007 * 1000 lies a hair above 2007 and would let in the bucket that equals it.
    """
    thousandths = percentage * 1000.0
    if not thousandths > 0.0:
        return 0
    if thousandths >= BUCKETS:
        return BUCKETS
    whole = math.floor(thousandths)
    return whole + 1 if thousandths - whole >= 0.5 else whole


def selected(purpose: str, override_id: str, attempt_salt: str, session_id: str, percentage: float) -> bool:
    """Whether the session is among the given percentage; a session without an id never is."""
    return session_id != "" and bucket(purpose, override_id, attempt_salt, session_id) < threshold(percentage)
