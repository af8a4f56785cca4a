"""What a build depends on: what it is asked with, the files that it reads, and the names that it looks for in vain.

``docs/adr/0011-the-build-cache.md`` argues what belongs to it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from pytest_compileiq.errors import Signal
from pytest_compileiq.model import sha256_hex

FORMAT = "3"  # of keys and of entries; another one makes all entries old


class NotModelled(Signal):
    """A build may depend on something that no key holds, so that it is not cached. The message says on what."""


class Inputs(Struct, frozen=True):
    """The inputs that a build has looked at."""

    files: frozenset[str] = frozenset()  # paths of what it reads, or may find before what it reads
    absent: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)  # directory → names missing there

    def __or__(self, other: Inputs) -> Inputs:
        absent = {
            directory: self.absent.get(directory, frozenset()) | other.absent.get(directory, frozenset())
            for directory in self.absent.keys() | other.absent.keys()
        }
        return Inputs(self.files | other.files, absent)

    def parted(self, is_first: Callable[[str], bool]) -> tuple[Inputs, Inputs]:
        """The files and directories of which ``is_first`` holds, and the others."""
        first, others = (
            Inputs(
                frozenset(path for path in self.files if is_first(path) is wanted),
                {directory: names for directory, names in self.absent.items() if is_first(directory) is wanted},
            )
            for wanted in (True, False)
        )
        return first, others


def looked_for(names: Iterable[str], directories: Iterable[str], is_there: Callable[[str], bool]) -> Inputs:
    """All of ``names``, which may hold slashes, in all of ``directories``: those that are there, and the others.

    Which of two files of one name is read depends on the order of the directories. So that no order has to be modelled,
    all of them count: a file that appears anywhere, or changes there, makes another build.
    """
    files, absent = set(), dict[str, set[str]]()
    everywhere = sorted(set(directories))
    for name in sorted(set(names)):
        for directory in everywhere:
            path = posixpath.join(directory, name)
            if is_there(path):
                files.add(path)
            else:
                home, _, last = path.rpartition("/")
                absent.setdefault(home or "/", set()).add(last)
    return Inputs(frozenset(files), {directory: frozenset(among) for directory, among in absent.items()})


def still_holds(
    files: Mapping[str, str],  # path → SHA-256
    absent: Mapping[str, Iterable[str]],  # directory → names
    digest_of: Callable[[str], str | None],
    names_in: Callable[[str], frozenset[str]],
) -> bool:
    """Whether every file has the content that it had, and nothing is where nothing was."""
    return all(digest_of(path) == sha256 for path, sha256 in files.items()) and all(
        names_in(directory).isdisjoint(names) for directory, names in absent.items()
    )


def key_of(question: Mapping[str, Sequence[str]]) -> str:
    """One digest of all that a build is asked with: name → words.

    Every word is preceded by its length, so that no two questions have one text.
    """
    parts = [FORMAT, *(part for name, words in sorted(question.items()) for part in (name, str(len(words)), *words))]
    return sha256_hex("".join(f"{len(part)}:{part}" for part in parts).encode(errors="surrogateescape"))
