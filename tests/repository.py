"""Git for tests, by one person who signs nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SETTINGS = (
    "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false",
    "-c", "protocol.file.allow=always",
)  # fmt: skip


def git(home: Path, *arguments: str) -> str:
    """Run git in ``home``; returns what it printed, stripped."""
    done = subprocess.run(["git", *_SETTINGS, *arguments], cwd=home, capture_output=True, text=True, check=True)
    return done.stdout.strip()
