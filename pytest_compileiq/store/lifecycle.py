"""What may happen to an artifact after its proof: validated, retired, or another point of its front promoted."""

from __future__ import annotations

from pytest_compileiq.artifact import Artifact, Withdrawn
from pytest_compileiq.errors import UserError
from pytest_compileiq.in_place import InPlace
from pytest_compileiq.proven_code import CodePair
from pytest_compileiq.rules.in_place import contradicted
from pytest_compileiq.store.store import Store


def retire(store: Store, name: str, target: str, reason: str) -> Artifact:
    """Withdraw an artifact: builds fall back to the baseline, and its machine code is never proposed again.

    Raises:
        UserError: the artifact is not tuned, or no reason is given.
        StoreError: the artifact cannot be read or written.
    """
    artifact = store.read(name, target)
    if artifact.outcome != "tuned":
        raise UserError(f"{name} for {target} is {artifact.outcome!r}, and only a tuned artifact can be retired")
    if not reason.strip():
        raise UserError("a retired artifact needs a reason: acf retire NAME --reason 'wrong on odd sizes'")
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
            "in_place": (),
            "reduction": None,
            "attribution": None,
            "code": {entry: CodePair(baseline=pair.baseline) for entry, pair in artifact.code.items()},
        }
    )
    return store.write(name, promoted, controls=[], samples=()).artifact


def validated(store: Store, name: str, target: str, record: InPlace) -> Artifact:
    """Keep what a program said of an artifact, in the place of what it said before on the same device.

    Raises:
        StoreError: the artifact cannot be read or written.
    """
    artifact = store.read(name, target)
    others = [each for each in artifact.in_place if (each.program, each.device) != (record.program, record.device)]
    return _with_records(store, name, artifact, (*others, record))


def explain(store: Store, name: str, target: str, reason: str) -> Artifact:
    """Give a person's explanation to all that programs say against an artifact, so that it counts as proven again.

    Raises:
        UserError: nothing speaks against it, or no reason is given.
        StoreError: the artifact cannot be read or written.
    """
    artifact = store.read(name, target)
    against = [record for record, _ in contradicted(artifact)]
    if not against:
        raise UserError(f"no program contradicts {name} for {target}, so there is nothing to explain")
    if not reason.strip():
        raise UserError("an explanation needs words: acf explain NAME --reason 'the program calls it on cold caches'")
    told = tuple(
        record.model_copy(update={"explanation": reason}) if record in against else record
        for record in artifact.in_place
    )
    return _with_records(store, name, artifact, told)


def _with_records(store: Store, name: str, artifact: Artifact, records: tuple[InPlace, ...]) -> Artifact:
    fresh = artifact.model_copy(update={"in_place": records})
    return store.write(name, fresh, controls=[], samples=()).artifact
