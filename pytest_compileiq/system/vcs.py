"""Git's view of the project: its commit, changed files, and the commits that touched files. Read-only."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.errors import EnvironmentFault, NotAsked
from pytest_compileiq.system.process import awaited, run

if TYPE_CHECKING:  # importing git takes 0.1 s and looks for its executable
    from git import Repo

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_TIMEOUT_S = 20


@dataclass(frozen=True)
class Revision:
    """The commit checked out, and the files that differ from it; both None without a repository or a commit.

    Where git does not answer, both are None, and ``not_asked`` is its own sentence.
    """

    commit: str | None
    changed: tuple[str, ...] | None
    not_asked: str = ""


def revision(rootdir: Path, files: Sequence[str]) -> Revision:
    """The commit of ``rootdir``, and which of ``files`` (relative to it) differ from the commit or are untracked.

    A directory among ``files`` means all files below it; files outside the repository are ignored.
    """
    try:
        repository = open_repository(rootdir)
    except NotAsked as error:
        return Revision(None, None, str(error))
    if repository is None or repository.working_tree_dir is None:
        return Revision(None, None)
    top, here = Path(repository.working_tree_dir).resolve(), rootdir.resolve()
    inside = [path for path in _here(here, files) if path.startswith(f"{top}{os.sep}")]
    with awaited(), repository:
        try:
            commit = repository.head.commit.hexsha
        except ValueError:  # nothing was committed yet
            return Revision(None, None)
        try:
            status = inside and repository.git.status(
                "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *inside,
                kill_after_timeout=_TIMEOUT_S,
            )  # fmt: skip
        except Exception as error:  # GitPython raises GitCommandError and more
            return Revision(None, None, str(not_asked(rootdir, error)))
    changed = (os.path.relpath(top / entry[3:], here) for entry in str(status or "").split("\0") if entry)
    return Revision(commit, tuple(sorted(Path(name).as_posix() for name in changed)))


def content_at(rootdir: Path, commit: str, file: str) -> bytes | None:
    """The content of ``file`` (relative to ``rootdir``) at ``commit``; None if it was not there.

    Raises ``NotAsked`` if git does not answer.
    """
    repository = open_repository(rootdir)
    if repository is None or repository.working_tree_dir is None:
        return None
    with awaited(), repository:
        try:
            path = os.path.relpath(rootdir.resolve() / file, Path(repository.working_tree_dir).resolve())
            content: bytes = repository.commit(commit).tree.join(Path(path).as_posix()).data_stream.read()
        except Exception:  # GitPython raises KeyError, ValueError and more for what is missing
            return None
    return content


def commits_touching(rootdir: Path, files: Sequence[str], since: str | None, limit: int = 5) -> list[str]:
    """``1a2b3c4d Speed up the loop (Ada, 2026-11-20)`` for the newest commits after ``since`` that touched ``files``.

    Empty without the repository or the commit; git's own sentence where it does not answer. ``since`` is untrusted.
    """
    try:
        repository = open_repository(rootdir) if files and since and _COMMIT.fullmatch(since) else None
    except NotAsked as error:
        return [str(error)]
    if repository is None:
        return []
    with awaited(), repository:
        try:
            text = repository.git.log(
                f"--max-count={int(limit)}", "--format=%h %s (%an, %as)", "--abbrev=8", f"{since}..HEAD", "--",
                *_here(rootdir, files), kill_after_timeout=_TIMEOUT_S,
            )  # fmt: skip
        except Exception:  # as above: a commit that a shallow clone lacks is not worth a failure
            return []
    return [line[:200] for line in str(text).splitlines() if line]


def listed_files(rootdir: Path) -> list[str] | None:
    """Files below ``rootdir`` that git tracks (deleted ones included) or does not ignore, also in submodules.

    Paths are relative to ``rootdir``; None where there is no repository. Raises ``NotAsked`` if git does not answer.
    """
    repository = open_repository(rootdir)
    if repository is None:
        return None
    with awaited(), repository:
        try:
            text = repository.git.execute(
                ["git", "-C", str(rootdir), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                kill_after_timeout=_TIMEOUT_S, strip_newline_in_stdout=False,
            )  # fmt: skip
        except Exception as error:  # as above
            raise not_asked(rootdir, error) from error
    names = dict.fromkeys(filter(None, str(text).split("\0")))
    return [inner for name in names for inner in _with_submodule(rootdir, name)]


def _with_submodule(rootdir: Path, name: str) -> list[str]:
    folder = rootdir / name
    if folder.is_symlink() or not folder.is_dir():
        return [name]
    is_repository = (folder / ".git").exists()  # else git would list the files around it again
    return [f"{name.rstrip('/')}/{inner}" for inner in (listed_files(folder) or [] if is_repository else [])]


def open_repository(rootdir: Path) -> Repo | None:
    """The repository around ``rootdir``; None where there is none.

    Raises:
        NotAsked: there is one, and git does not answer: it is not installed, or somebody else owns the repository.
    """
    above = (rootdir.resolve() / "below").parents
    if not any(os.path.lexists(directory / ".git") for directory in above) and "GIT_DIR" not in os.environ:
        return None
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    from git import Repo

    try:
        with awaited():
            repository = Repo(rootdir, search_parent_directories=True)
            repository.git.rev_parse("--git-dir")
    except Exception as error:  # InvalidGitRepositoryError, GitCommandError, OSError and more
        raise not_asked(rootdir, error) from error
    return repository


def not_asked(rootdir: Path, error: Exception) -> NotAsked:
    """The error of GitPython, in the words of git itself."""
    try:
        asked = run(["git", "-C", str(rootdir), "rev-parse", "--git-dir"], timeout_s=_TIMEOUT_S)
    except EnvironmentFault as missing:
        return NotAsked(f"git cannot be asked about {rootdir}: {missing}")
    said = asked.output if asked.returncode else getattr(error, "stderr", "") or error
    words = str(said).strip().removeprefix("stderr: '").removesuffix("'").removeprefix("fatal: ")
    text = "; ".join(filter(None, map(str.strip, words.splitlines()))).replace(":; ", ": ")
    return NotAsked(f"git cannot be asked about {rootdir}: {text:.500}")


def _here(rootdir: Path, files: Sequence[str]) -> list[str]:
    return [os.path.normpath(rootdir / name) for name in files]
