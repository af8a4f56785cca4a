"""How fast this processor can store, as a bound on calls that say that they write."""

from __future__ import annotations

import ctypes
import time
from functools import lru_cache

_SMALL_BYTES, _LARGE_BYTES = 4 << 10, 24 << 10  # both in any L1 cache
_LOOPS, _CALLS = 60, 10
_LEAST = 100e9  # 32 bytes a cycle at 3 GHz: on a busy machine 14 were measured where 118 are right


@lru_cache(maxsize=1)
def store_rate() -> float:
    """Bytes a second that one core stores to its L1 cache: the best of 60 loops, without the cost of a call.

    A busy machine measures too little, so that this is never below a common core's rate.
    """
    small_s, large_s = (min(_seconds(size) for _ in range(_LOOPS)) for size in (_SMALL_BYTES, _LARGE_BYTES))
    # By chance the smaller one may have taken as long: then only the larger one says something.
    taken_s = large_s - small_s if large_s > 1.2 * small_s else large_s
    return max(_LEAST, (_LARGE_BYTES - _SMALL_BYTES) / taken_s)


def _seconds(size: int) -> float:
    """Of one call that stores so many bytes, the mean of a loop."""
    memory = ctypes.create_string_buffer(size)
    begun = time.perf_counter_ns()
    for _ in range(_CALLS):
        ctypes.memset(memory, 1, size)
    return max(1, time.perf_counter_ns() - begun) / _CALLS * 1e-9
