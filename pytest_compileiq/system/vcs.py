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
    """Where the work tree stands, and which files differ from it; None where there is no repository, or no commit."""

    commit: str | None
    changed: tuple[str, ...] | None


def revision(rootdir: Path, files: Sequence[str]) -> Revision:
    """The commit of ``rootdir``, and what of ``files`` (relative to it) differs from it or is untracked.

    A directory among ``files`` stands for what is below it; what lies outside the repository is passed over.
    """
    repository = open_repository(rootdir)
    if repository is None or repository.working_tree_dir is None:
        return Revision(None, None)
    top, here = Path(repository.working_tree_dir).resolve(), rootdir.resolve()
    inside = [path for path in _here(here, files) if path.startswith(f"{top}{os.sep}")]
    with repository:
        try:
            commit = repository.head.commit.hexsha
            status = inside and repository.git.status(
                "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *inside,
                kill_after_timeout=_TIMEOUT_S,
            )  # fmt: skip
        except Exception:  # GitPython raises ValueError, GitCommandError and more for an unborn or a broken HEAD
            return Revision(None, None)
    changed = (os.path.relpath(top / entry[3:], here) for entry in str(status or "").split("\0") if entry)
    return Revision(commit, tuple(sorted(Path(name).as_posix() for name in changed)))


def content_at(rootdir: Path, commit: str, file: str) -> bytes | None:
    """What ``file`` (relative to ``rootdir``) held at ``commit``; None where it was not there."""
    repository = open_repository(rootdir)
    if repository is None or repository.working_tree_dir is None:
        return None
    with repository:
        try:
            path = os.path.relpath(rootdir.resolve() / file, Path(repository.working_tree_dir).resolve())
            content: bytes = repository.commit(commit).tree.join(Path(path).as_posix()).data_stream.read()
        except Exception:  # GitPython raises KeyError, ValueError and more for what is not there
            return None
    return content


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
    return [os.path.normpath(rootdir / name) for name in files]
