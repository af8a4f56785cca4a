"""Pairs a removed artifact with the added one that it became: by name, target or content. Values in, pairs out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.model import Target
from pytest_compileiq.rules.diff import Side

Key = Callable[[Side, Artifact], Hashable]


def _same_code(side: Side, artifact: Artifact) -> Hashable:
    code = tuple((entry, *pair.proven_as) for entry, pair in artifact.code.items())
    return side.target, artifact.controls and artifact.controls.sha256, code


def _same_test_and_code(side: Side, artifact: Artifact) -> Hashable:
    return artifact.benchmark, _same_code(side, artifact)


def _same_test(side: Side, artifact: Artifact) -> Hashable:
    return side.target, artifact.benchmark


def _same_kernel(side: Side, artifact: Artifact) -> Hashable:
    return side.target, tuple(sorted(artifact.fingerprint.sources)), tuple(sorted(artifact.code))


def _same_architecture(side: Side, artifact: Artifact) -> Hashable:
    return side.name, Target(side.target).architecture


def _same_name(side: Side, artifact: Artifact) -> Hashable:
    return side.name, artifact.benchmark


# The surest likeness first: the next one sees only what is not yet paired.
LIKENESSES: tuple[Key, ...] = (
    _same_test_and_code,
    _same_code,
    _same_test,
    _same_kernel,
    _same_architecture,
    _same_name,
)


def pair_renamed(removed: Sequence[Side], added: Sequence[Side]) -> list[tuple[Side | None, Side | None]]:
    """(old, new) for what was renamed or retargeted; a side without a partner stands alone.

    Several sides of one likeness are paired in the order of their names. An unreadable side is like no other.
    """
    pairs: list[tuple[Side | None, Side | None]] = []
    for likeness in LIKENESSES:
        waiting = _grouped(removed, likeness)
        paired = [
            (old, new)
            for key, news in _grouped(added, likeness).items()
            for old, new in zip(waiting.get(key, ()), news, strict=False)
        ]
        removed = [side for side in removed if all(side is not old for old, _ in paired)]
        added = [side for side in added if all(side is not new for _, new in paired)]
        pairs += paired
    return pairs + [(side, None) for side in removed] + [(None, side) for side in added]


def _grouped(sides: Sequence[Side], likeness: Key) -> dict[Hashable, list[Side]]:
    groups: dict[Hashable, list[Side]] = defaultdict(list)
    for side in sorted(sides, key=lambda side: (side.name, side.target)):
        if side.artifact is not None:
            groups[likeness(side, side.artifact)].append(side)
    return groups
