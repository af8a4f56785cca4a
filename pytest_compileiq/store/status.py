"""Whether an artifact holds, judged without its test; how it is retired or promoted; the test that it belongs to."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from pytest_compileiq.artifact import Artifact, CodePair, Withdrawn
from pytest_compileiq.errors import StoreError, UserError, fault_of
from pytest_compileiq.model import LONGEST_TEXT, sha256_hex
from pytest_compileiq.rules.fingerprint import is_gone, path_within
from pytest_compileiq.spelling import for_shell
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import Unfit, exists, inside, read_regular

_MOST_SOURCE_BYTES = 64 << 20


def why_unproven(name: str, artifact: Artifact) -> str | None:
    """Why controls may not be applied, being retired or promoted and not proven yet; None if they may."""
    here = f"{name} ({artifact.target})"
    if artifact.outcome == "retired":
        return f"{here} was retired: {artifact.reason}; find another: pytest --tune {for_shell(artifact.benchmark)}"
    if artifact.outcome == "promoted":
        return f"{here} holds {artifact.reason}: run pytest --tune --tune-budget=0 {for_shell(artifact.benchmark)}"
    return None


def why_stale(name: str, artifact: Artifact, root: Path) -> str | None:
    """Which sources differ from the proven ones, in a sentence; None if all match. Nothing is compiled."""
    digest = functools.cache(lambda file: sha256_hex(read_source(file)))  # many names may lead to one file
    changed = [
        f"{path} ({why})"
        for path, proven in sorted(artifact.fingerprint.sources.items())
        if (why := _why_changed(root, path, proven, digest))
    ]
    if not changed:
        return None
    return (
        f"{name} ({artifact.target}) is stale: {', '.join(changed)} since it was proven, by content and without a "
        f"compile; if pytest {for_shell(artifact.benchmark)} finds the machine code the same, --tune --tune-budget=0 "
        "refreshes it, else --tune finds another"
    )


def read_source(path: Path) -> bytes:
    """A source's content; raises ``Unfit`` if it is no regular file, or is too large."""
    return read_regular(path, _MOST_SOURCE_BYTES)


def _why_changed(root: Path, path: str, proven: str, digest: Callable[[Path], str]) -> str:
    try:
        here = inside(root, path)
        if here.suffix == ".py" and not exists(here):  # it may be a module of a package that is installed here
            candidates = (os.path.join(entry, path) for entry in sys.path)  # noqa: PTH118
            here = Path(next(filter(os.path.isfile, candidates), here))
        return "" if digest(here) == proven else "changed"
    except Unfit as why:
        return str(why)


def retire(store: Store, name: str, target: str, reason: str) -> Artifact:
    """Withdraw an artifact: builds fall back to the baseline, and its machine code is never proposed again.

    Raises:
        UserError: the artifact is not tuned, or the reason is missing or too long.
        StoreError: the artifact cannot be read or written.
    """
    artifact = store.read(name, target)
    if artifact.outcome != "tuned":
        raise UserError(f"{name} for {target} is {artifact.outcome!r}, and only a tuned artifact can be retired")
    if not reason.strip():
        raise UserError("a retired artifact needs a reason: acf retire NAME --reason 'wrong on odd sizes'")
    if len(reason) > LONGEST_TEXT:
        raise UserError(
            f"the reason has {len(reason)} characters, and an artifact holds at most {LONGEST_TEXT}: shorten it"
        )
    code = {entry: pair.tuned.sha256 for entry, pair in artifact.code.items() if pair.tuned}
    withdrawn = (*artifact.withdrawn, Withdrawn(reason=reason, code=code))
    retired = artifact.model_copy(update={"outcome": "retired", "reason": reason, "withdrawn": withdrawn})
    return store.write(name, retired, controls=[], samples=()).artifact


def promote(store: Store, name: str, target: str, point: int) -> Artifact:
    """Replace the controls with the front's ``point`` (from 0); until it is proven, builds take the baseline.

    Raises:
        UserError: there is no such point.
        StoreError: the artifact cannot be read or written.
    """
    artifact = store.read(name, target)
    if not 0 <= point < len(artifact.front):
        held = f"points 0 to {len(artifact.front) - 1}" if artifact.front else "no front: it has one objective"
        raise UserError(f"{name} for {target} has {held}; there is no point {point}")
    promoted = artifact.model_copy(
        update={
            "outcome": "promoted",
            "reason": f"point {point} of the front, chosen and not proven yet",
            "controls": artifact.front[point].controls,
            "classes": (),
            "claims": (),
            "reduction": None,
            "attribution": None,
            "code": {entry: CodePair(baseline=pair.baseline) for entry, pair in artifact.code.items()},
        }
    )
    return store.write(name, promoted, controls=[], samples=()).artifact


# ── the test that an artifact belongs to ─────────────────────────────────────────────────────────────────────────


def own_name(store: Store, name: str, owner: str) -> str:
    """The remedy where ``owner`` and another test have one artifact."""
    return (
        f"give one of them a name of its own, tune(name=…), or remove {store.root.name}/{name}/ if {owner} is no more"
    )


def is_ownerless(artifact: Artifact, rootdir: Path) -> bool:
    """Whether the test that ``artifact`` was made for is gone from its file."""
    file, names = path_within(artifact.benchmark)
    try:
        content = read_source(inside(rootdir, file))
    except Unfit:
        content = None
    return is_gone(content, names)


def other_owner(store: Store, name: str, nodeid: str, rootdir: Path) -> str | None:
    """The living test that an artifact of ``name`` was made for, where it is not ``nodeid``; else None."""
    read = (artifact for _, artifact in store.read_targets(name) if isinstance(artifact, Artifact))
    others = (each for each in read if each.benchmark != nodeid)
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
        return all(  # where one cannot be read, nothing says whose it is
            isinstance(each, Artifact) and (each.benchmark in here or is_ownerless(each, rootdir))
            for _, each in store.read_targets(name)
        )

    return [name for name in store.names() if name not in claimed and is_orphan(name)]
