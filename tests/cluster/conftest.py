"""What all tests of clusters share."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def temporary(monkeypatch):
    """Where drivers and actors have their folders: of a short name, since Ray keeps sockets there."""
    folder = Path(tempfile.mkdtemp(prefix="", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
