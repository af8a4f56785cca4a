"""``acf/`` at a commit, read from git's objects alone, or in the work tree. Nothing is written; content is untrusted.

Nothing is checked out, and no filter or textconv of the repository runs. A shallow clone with both commits is enough.
"""

from __future__ import annotations

import os
import posixpath
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_compileiq.errors import EnvironmentFault, StoreError, UserError
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.process import awaited
from pytest_compileiq.system.vcs import not_asked, open_repository

WORK_TREE = "the work tree"
_REGULAR = ("100644", "100755")
_DEFAULTS = ("main", "master", "origin/main", "origin/master")
_CHUNK = 1 << 16
_NO = 1  # git's status where it has an answer, and it is no


@dataclass(frozen=True)
class GitFile:
    """One file: its git mode and its object's id, which is None if only the work tree holds the file."""

    mode: str
    oid: str | None


@dataclass(frozen=True)
class StoreState:
    """``acf/`` at one end of a comparison."""

    label: str  # in words
    files: Mapping[str, GitFile]  # by path below acf/
    commit: str | None = None  # None for the work tree


@dataclass(frozen=True)
class FileRequest:
    """One file to read: its path below ``acf/``, its entry, and the most bytes that it may have."""

    path: str
    entry: GitFile
    limit: int


@dataclass(frozen=True)
class Version:
    """One file as a commit left it: its path below ``acf/``, its object (None: removed), the commit and its time."""

    path: str
    oid: str | None
    commit: str
    seconds: int


class StoreInGit:
    """The repository around a store.

    Attributes:
        folder: the store's path, relative to the repository's root.

    Raises:
        EnvironmentFault: the store is in no repository.
        NotAsked: git does not answer.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        repository = open_repository(store.root.parent)
        if repository is None or repository.working_tree_dir is None:
            raise EnvironmentFault(f"{store.root} is in no git repository: git init makes one")
        self._repository = repository  # ``_git`` works only as long as this lives
        self._git: Any = repository.git
        root = store.root.parent.resolve() / store.root.name
        self.folder = root.relative_to(Path(repository.working_tree_dir).resolve()).as_posix()

    def sides(self, span: str | None) -> tuple[StoreState, StoreState]:
        """Both ends of ``BASE..HEAD``, or of ``BASE`` and the work tree.

        Without ``span`` the base is where this branch left main or master; on those, it is the commit before HEAD.

        Raises:
            UserError: ``span`` names a commit that this clone does not have.
        """
        base_text, dots, head_text = (span or "").partition("..")
        if head_text.startswith("."):
            raise UserError(f"{span}: expected BASE or BASE..HEAD; git merge-base finds where two branches parted")
        if dots and not base_text:
            raise UserError(f"{span}: expected BASE or BASE..HEAD, e.g. main..HEAD")
        name, commit = (base_text, self._commit(base_text)) if base_text else self._default_base()
        base = self._at(name, commit)
        if dots:
            head_text = head_text or "HEAD"
            return base, self._at(head_text, self._commit(head_text))
        return base, StoreState(WORK_TREE, self._in_work_tree(commit, base.files))

    @property
    def is_shallow(self) -> bool:
        """Whether this clone lacks the older commits."""
        return self._ask("rev_parse", "--is-shallow-repository") == "true"

    def versions(self, name: str | None = None) -> Iterator[Version]:
        """Every version of every file that a commit of this branch brought, oldest first; ``name`` is one artifact's.

        A merge brings what it changes on the branch that it went to.
        """
        if self._ask("rev_parse", "--verify", "--quiet", "HEAD") is None:  # nothing was committed yet
            return
        folder = f"{self.folder}/{name}" if name else self.folder
        tokens = self._paths(
            "log", "--reverse", "--first-parent", "-m", "--raw", "--no-abbrev", "--no-renames", "-z",
            "--format=format:commit %H %ct", "HEAD", "--", folder,
        )  # fmt: skip
        commit, seconds, oid = "", 0, ""
        for token in tokens:  # a commit and its first change stand in one token, on a line each; a path follows
            if oid:
                yield Version(self._below(token), oid if oid.strip("0") else None, commit, seconds)
                oid = ""
                continue
            for line in token.splitlines():
                if line.startswith("commit "):
                    _, commit, when = line.split(" ")
                    seconds = int(when)
                elif line.startswith(":"):
                    oid = line.split(" ")[3]

    def contents(self, wanted: Iterable[FileRequest]) -> Iterator[tuple[str, bytes | StoreError]]:
        """The path and content of each file, in any order; an error in place of content that cannot be read."""
        stored: list[FileRequest] = []
        for file in wanted:
            if file.entry.oid is not None and file.entry.mode in _REGULAR:
                stored.append(file)
                continue
            shown = f"{self.folder}/{file.path}"
            try:
                if file.entry.mode not in _REGULAR:
                    raise StoreError(f"{shown} is a link or no regular file, and only files are read")
                yield file.path, self._store.read_bytes(self._store.root / file.path, file.limit)
            except StoreError as error:
                yield file.path, error
            except OSError as error:  # a name that the file system refuses
                yield file.path, StoreError(f"{shown:.200} cannot be read: {error.strerror}")
        if stored:
            yield from self._of_objects(stored)

    def places(self, snapshot: StoreState, path: str, limit: int) -> list[FileRequest | None]:
        """Where a file of the project may lie at one end: one place for each directory that ``path`` may start from.

        The store's parent comes first, the repository's root last. A place outside the repository is None.
        """
        requests: list[FileRequest | None] = []
        for home in PurePosixPath(self.folder).parents:
            place = posixpath.normpath(home / path)
            if place.startswith(("/", "../")) or place == ".." or not place.isprintable():
                requests.append(None)
                continue
            oid = f"{snapshot.commit}:{place}" if snapshot.commit else None
            requests.append(FileRequest(posixpath.relpath(place, self.folder), GitFile("100644", oid), limit))
        return requests

    # ── commits ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _resolve(self, text: str) -> str | None:
        return self._ask("rev_parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")

    def _commit(self, text: str) -> str:
        if commit := self._resolve(text):
            return commit
        if self._resolve("HEAD") is None:
            added = shlex.quote(f":/{self.folder}")
            raise UserError(f"the repository of {self.folder} has no commit yet: git add {added} && git commit")
        why = "this clone is shallow: git fetch --depth=1 origin" if self.is_shallow else "fetch it: git fetch origin"
        raise UserError(f"{text!r} is no commit that is here; {why} {text}")

    def _default_base(self) -> tuple[str, str]:
        head = self._commit("HEAD")
        for name in _DEFAULTS:
            tip = self._resolve(name)
            fork = self._ask("merge_base", tip, head) if tip and tip != head else None
            if fork is not None and fork != head:
                return f"where this branch left {name}", fork
            if tip is not None:
                break
        before = self._resolve("HEAD~")
        return ("HEAD~", before) if before else ("HEAD", head)

    def _ask(self, command: str, *arguments: str) -> str | None:
        """git's answer; None where that is no, or nothing.

        Raises:
            NotAsked: it fails.
        """
        try:
            with awaited():
                return str(getattr(self._git, command)(*arguments)) or None
        except Exception as error:  # GitPython raises GitCommandError and more
            if getattr(error, "status", None) == _NO:
                return None
            raise not_asked(self._store.root.parent, error) from error

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _at(self, name: str, commit: str) -> StoreState:
        listed = self._paths("ls_tree", "-r", "-z", "--full-tree", commit, "--", f"{self.folder}/")
        files = {}
        for line in listed:
            facts, _, path = line.partition("\t")
            mode, _, oid = facts.split(" ")
            files[self._below(path)] = GitFile(mode, oid)
        return StoreState(f"{name} ({commit[:10]})", files, commit)

    def _in_work_tree(self, commit: str, base: Mapping[str, GitFile]) -> Mapping[str, GitFile]:
        """The base's files with the work tree's changes, which git's index finds without reading every file."""
        # Two lists: tracked files that changed, and untracked files.
        changed = self._paths("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", commit, "--", self.folder)
        changed += self._paths("ls_files", "--others", "-z", "--", self.folder)
        files = dict(base)
        for path in map(self._below, changed):
            place = self._store.root / path
            if place.is_symlink():
                files[path] = GitFile("120000", None)
            elif place.exists():
                files[path] = GitFile("100644", None)
            else:
                files.pop(path, None)
        return files

    def _paths(self, command: str, *arguments: str) -> list[str]:
        # Pathspecs are literal, and relative to the repository's root, where GitPython runs git.
        with awaited(), self._git.custom_environment(GIT_LITERAL_PATHSPECS="1", GIT_OPTIONAL_LOCKS="0"):
            try:
                output: bytes = getattr(self._git, command)(
                    *arguments, stdout_as_string=False, strip_newline_in_stdout=False
                )
            except Exception as error:
                raise not_asked(self._store.root.parent, error) from error
        return [os.fsdecode(line) for line in output.split(b"\0") if line]

    def _below(self, path: str) -> str:
        return path.removeprefix(f"{self.folder}/")

    # ── contents ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _of_objects(self, wanted: list[FileRequest]) -> Iterator[tuple[str, bytes | StoreError]]:
        """Read all files from one ``git cat-file``, with one file in memory at a time."""
        with tempfile.TemporaryFile() as request:
            request.write("".join(f"{file.entry.oid}\n" for file in wanted).encode())
            request.seek(0)
            process = self._git.cat_file("--batch", istream=request, as_process=True)
            try:
                for file in wanted:
                    yield file.path, self._next_object(process.stdout, file)
            finally:
                process.stdout.close()
                with suppress(Exception):  # the caller stopped half-way, and git's output had no reader
                    process.wait()

    def _next_object(self, stream: Any, wanted: FileRequest) -> bytes | StoreError:
        shown, header = f"{self.folder}/{wanted.path}", stream.readline().split()
        if len(header) != 3 or header[1] != b"blob" or not header[2].isdigit():
            return StoreError(f"{shown} cannot be read from git's objects; git fsck says why")
        size = int(header[2])
        if size > wanted.limit:
            left = size + 1
            while left > 0 and (chunk := stream.read(min(left, _CHUNK))):
                left -= len(chunk)
            return StoreError(f"{shown} has {size} bytes, and at most {wanted.limit} are read")
        data: bytes = stream.read(size)
        stream.read(1)
        return data
