"""How the tests are shared out between processes."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Send tests that share what a module makes once to one process: two would make it twice."""
    for item in items:
        if isinstance(item, pytest.Function) and any(
            definitions[-1].scope == "module" for definitions in item._fixtureinfo.name2fixturedefs.values()
        ):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))
