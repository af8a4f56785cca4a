"""Property tests draw the same examples in each run, and no clock has a say in them: a busy machine fails none.

Nor does it say so: what it says is in tests that have a load of their own.
"""

import pytest
from hypothesis import settings

settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
