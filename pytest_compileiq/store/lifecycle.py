"""What may happen to an artifact after its proof: retired, or another point of its front promoted."""

from __future__ import annotations

from pytest_compileiq.artifact import Artifact, Withdrawn
from pytest_compileiq.errors import UserError
from pytest_compileiq.model import LONGEST_TEXT
from pytest_compileiq.proven_code import CodePair
from pytest_compileiq.store.store import Store


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
