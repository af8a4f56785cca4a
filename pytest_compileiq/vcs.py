"""What git knows about the project: the commit, whether files are dirty, which commits touched them. Read-only."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing git takes 0.1 s and looks for its executable
    from git import Repo

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_TIMEOUT_S = 20


@dataclass(frozen=True)
class Revision:
    """Where the work tree stands; None where there is no repository, or no commit yet."""

    commit: str | None
    dirty: bool | None


def revision(rootdir: Path, files: Sequence[str]) -> Revision:
    """The commit of ``rootdir`` and whether any of ``files`` (relative to it) differs from it or is untracked."""
    repository = open_repository(rootdir)
    if repository is None:
        return Revision(None, None)
    with repository:
        try:
            commit = repository.head.commit.hexsha
            status = repository.git.status("--porcelain", "--", *_here(rootdir, files), kill_after_timeout=_TIMEOUT_S)
        except Exception:  # GitPython raises ValueError, GitCommandError and more for an unborn or a broken HEAD
            return Revision(None, None)
    return Revision(commit, bool(status))


def commits_touching(rootdir: Path, files: Sequence[str], since: str | None, limit: int = 5) -> list[str]:
    """``1a2b3c4d Speed up the loop (Ada, 2026-11-20)`` for the newest commits after ``since`` that touched ``files``.

    Empty when git, the repository or the commit is missing. ``since`` is untrusted: anything but a hash is refused.
    """
    repository = open_repository(rootdir) if files and since and _COMMIT.fullmatch(since) else None
    if repository is None:
        return []
    with repository:
        try:
            text = repository.git.log(
                f"--max-count={int(limit)}", "--format=%h %s (%an, %as)", "--abbrev=8", f"{since}..HEAD", "--",
                *_here(rootdir, files), kill_after_timeout=_TIMEOUT_S,
            )  # fmt: skip
        except Exception:  # as above: a commit that a shallow clone lacks is not worth a failure
            return []
    return [line[:200] for line in str(text).splitlines() if line]


def open_repository(rootdir: Path) -> Repo | None:
    """The repository around ``rootdir``, or None where there is no git, no repository, or one of another owner."""
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    try:
        from git import Repo

        return Repo(rootdir, search_parent_directories=True)
    except Exception:  # whatever it is, there is no history to ask
        return None


def _here(rootdir: Path, files: Sequence[str]) -> list[str]:
    return [str(rootdir / name) for name in files]
