"""How the tests are shared out between processes."""

from __future__ import annotations

import gc
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.documents import ROOT, read_page

_IN_MILLISECONDS = Path(__file__).parent / "unit"
_SHARED = re.compile(r'scope="(?:module|session)"')
_PAGE = re.compile(r"::test_a_page_shows_what_happens\[(.+)\]$")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes milliseconds last, in the random order that it has, so that processes end together."""
    items.sort(key=lambda item: item.path.is_relative_to(_IN_MILLISECONDS))


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests out of every garbage collection: each block of samples begins with one."""
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Let tests of several processes measure side by side: what they hold of a machine's locks is in tests of one.

    No fixture does it: this project's tuned kernels lie below, and a fixture of theirs would be part of what they prove.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        locks = tempfile.TemporaryDirectory(prefix="acf-locks-")
        config.add_cleanup(locks.cleanup)
        os.environ["ACF_LOCK_DIR"] = locks.name


@pytest.hookimpl(optionalhook=True)  # runs without xdist have no such hook
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """Send tests that share what is made once, for a module or a page, to one process: two would make it twice."""
    from xdist.scheduler import LoadScopeScheduling

    class BySharing(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return shared_by(nodeid)

    return BySharing(config, log)


def shared_by(nodeid: str) -> str:
    """What a test shares with others: the page that its page goes on from, its module, or nothing but itself."""
    if page := _PAGE.search(nodeid):
        return opening(page[1])
    module = nodeid.partition("::")[0]
    return module if makes_once(module) else nodeid


@cache
def opening(page: str) -> str:
    """The page that all of those begin with which this one goes on from."""
    start = read_page(ROOT / page).start
    return page if start is None else opening(start)


@cache
def makes_once(module: str) -> bool:
    """Whether tests of ``module`` share a fixture that is defined there."""
    return _SHARED.search((Path(__file__).parents[1] / module).read_text(encoding="utf-8")) is not None
