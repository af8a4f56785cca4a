"""A search by an engine that picks, on made-up machine code, held to what is promised of it."""

from __future__ import annotations

from collections.abc import Callable

from pytest_compileiq.engines.base import Built, Picking, Told
from pytest_compileiq.model import Candidate
from pytest_compileiq.rules.built_ahead import MOST

_CODES = 97  # a prime, so that codes repeat as they do in a real search


def picked_by(engine: Picking, digest_of: Callable[[Candidate], int], wanted: int, rounds: int) -> list[Candidate]:
    """What ``engine`` has measured in ``rounds`` batches of ``wanted``, which are fewer where it ends before.

    Args:
        digest_of: gives equal numbers for equal candidates.
    """
    seen, measured = set[int](), list[Candidate]()
    for round_ in range(rounds):
        most = wanted * (1 + round_ % MOST)
        proposed = engine.propose(wanted, most)
        assert len(proposed) <= most, f"propose({wanted}, {most}) gave {len(proposed)} candidates"
        codes = [digest_of(candidate) % _CODES for candidate in proposed]
        built = [
            Built(candidate, {"size": float(code)}, code in seen or code in codes[:place])
            for place, (candidate, code) in enumerate(zip(proposed, codes, strict=True))
        ]
        picks = engine.pick(built, wanted) if built else []
        assert len(picks) == len(set(picks)) <= wanted, f"pick(…, {wanted}) gave {picks}"
        assert not any(built[pick].known for pick in picks), "known machine code was picked"
        assert picks or all(each.known for each in built), "there was something new, and nothing was picked"
        seen |= {codes[pick] for pick in picks}
        told = [Told(built[pick].candidate, (codes[pick] / _CODES,), features=built[pick].features) for pick in picks]
        measured += [each.candidate for each in told]
        engine.tell(told)
        if not proposed:
            break
    return measured
