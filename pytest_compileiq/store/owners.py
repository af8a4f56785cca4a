"""Whose an artifact is: the test that it was made for, as long as the text of that test's file has it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.errors import StoreError, fault_of
from pytest_compileiq.rules.fingerprint import is_gone, path_within
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import Unfit, inside

_MOST_BYTES = 1 << 26


def own_name(store: Store, name: str, owner: str) -> str:
    """What to do where ``owner`` and another test have one artifact."""
    return (
        f"give one of them a name of its own, tune(name=…), or remove {store.root.name}/{name}/ if {owner} is no more"
    )


def is_ownerless(artifact: Artifact, rootdir: Path) -> bool:
    """Whether the test that ``artifact`` was made for is gone from its file."""
    file, names = path_within(artifact.benchmark)
    return is_gone(_content(rootdir, file), names)


def other_owner(store: Store, name: str, nodeid: str, rootdir: Path) -> str | None:
    """The living test that an artifact of ``name`` was made for, where it is not ``nodeid``; else None."""
    others = (each for each in _readable(store, name) if each.benchmark != nodeid)
    return next((each.benchmark for each in others if not is_ownerless(each, rootdir)), None)


def rename(store: Store, name: str, to: str) -> None:
    """Give the artifact ``name``, with all its targets, the name ``to``.

    Raises:
        StoreError: there is one of that name, or the store cannot be written.
    """
    if name == to:
        return
    try:
        (store.root / name).rename(store.root / to)
    except OSError as error:
        raise StoreError(f"{store.root.name}/{name}/ could not become {to}/: {fault_of(error)}") from error


def orphans(store: Store, claimed: Mapping[str, str], rootdir: Path, untuned: Collection[str] = ()) -> list[str]:
    """The artifacts that no test claims and whose own test is gone, or is here and claims another, or none.

    Args:
        claimed: artifact name → the test that claims it, as far as is known.
        untuned: tests that are here and have no marker.

    Raises:
        StoreError: the store exists and cannot be read.
    """
    here = {*claimed.values(), *untuned}

    def is_orphan(name: str) -> bool:
        artifacts = list(_readable(store, name))
        if len(artifacts) < len(store.targets(name)):
            return False  # one cannot be read: nothing says whose it is
        return all(each.benchmark in here or is_ownerless(each, rootdir) for each in artifacts)

    return [name for name in store.names() if name not in claimed and is_orphan(name)]


def _readable(store: Store, name: str) -> Iterator[Artifact]:
    for target in store.targets(name):
        try:
            yield store.read(name, target)
        except StoreError:  # it is told as a problem of the store
            continue


def _content(rootdir: Path, file: str) -> bytes | None:
    """The content of a file of the project, an untrusted name; None where it is none."""
    try:
        path = inside(rootdir, file)
        return path.read_bytes() if path.is_file() and path.stat().st_size <= _MOST_BYTES else None
    except (Unfit, OSError):
        return None
