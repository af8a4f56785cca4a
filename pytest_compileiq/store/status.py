"""Whether an artifact stands, as far as can be seen without its test; and how it is retired, or promoted."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pytest_compileiq.artifact import Artifact, CodePair, Withdrawn
from pytest_compileiq.errors import UserError
from pytest_compileiq.model import LONGEST_TEXT, sha256_hex
from pytest_compileiq.spelling import for_shell
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import Unfit, exists, inside, read_regular

_MOST_SOURCE_BYTES = 64 << 20


def why_unproven(name: str, artifact: Artifact) -> str | None:
    """Why controls may not be applied: retired, or promoted and not proven yet; None for any others."""
    here = f"{name} ({artifact.target})"
    if artifact.outcome == "retired":
        return f"{here} was retired: {artifact.reason}; find another: pytest --tune {for_shell(artifact.benchmark)}"
    if artifact.outcome == "promoted":
        return f"{here} holds {artifact.reason}: run pytest --tune --tune-budget=0 {for_shell(artifact.benchmark)}"
    return None


def why_stale(name: str, artifact: Artifact, root: Path) -> str | None:
    """Which sources differ from what was proven, in a sentence; None if all match. Nothing is compiled."""
    read = functools.cache(_digest)  # many names may lead to one file
    changed = [
        f"{path} ({why})"
        for path, proven in sorted(artifact.fingerprint.sources.items())
        if (why := _why_changed(root, path, proven, read))
    ]
    if not changed:
        return None
    return (
        f"{name} ({artifact.target}) is stale: {', '.join(changed)} since it was proven, by content and without a "
        f"compile; if pytest {for_shell(artifact.benchmark)} finds the machine code the same, --tune --tune-budget=0 "
        "refreshes it, else --tune finds another"
    )


def read_source(path: Path) -> bytes:
    """A source's content.

    Raises:
        Unfit: it is not a regular file, or is too large.
    """
    return read_regular(path, _MOST_SOURCE_BYTES)


def _why_changed(root: Path, path: str, proven: str, digest: Callable[[Path], str]) -> str:
    """Why a source is not what was proven; empty if it is."""
    try:
        return "" if digest(_located(root, path)) == proven else "changed"
    except Unfit as why:
        return str(why)


def _located(root: Path, path: str) -> Path:
    """Where a source is: below ``root``, or a Python module of a package that is installed here."""
    here = inside(root, path)
    if here.suffix != ".py" or exists(here):
        return here
    candidates = (os.path.join(entry, path) for entry in sys.path)  # noqa: PTH118
    return Path(next(filter(os.path.isfile, candidates), here))


def _digest(path: Path) -> str:
    return sha256_hex(read_source(path))


def retire(store: Store, name: str, target: str, reason: str) -> Artifact:
    """Withdraw an artifact: builds fall back to the baseline, and its machine code is never proposed again.

    Raises:
        UserError: the artifact is not tuned, no reason is given, or it is too long.
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
