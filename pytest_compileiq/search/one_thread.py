"""Linear algebra on one thread, where compilers want the other cores."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Keep an engine's linear algebra on one thread: small matrices gain little from more, which spin while they wait.

    Beside compilers on every core, that took as long as the compilers did.
    """
    limited: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
    return limited


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """The libraries with threads of their own: slow to look for, and only an import brings another."""
    return ThreadpoolController()
