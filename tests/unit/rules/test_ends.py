"""What ends an artifact, from the version that took its place; and what is the same proof."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_compileiq.artifact import (
    CodePair,
    CodeTable,
    CompilerTable,
    FingerprintTable,
    Provenance,
    is_same_code,
    stored_code,
)
from pytest_compileiq.model import BuildResult, CodeDigest
from pytest_compileiq.rules.staleness import Effect, Finding, ends_by_successor, ends_of, goes_on, proof_of
from tests.unit.artifacts import make_artifact, measured_claim

NEW_CODE = {"k": CodePair(baseline=CodeTable(sha256="1" * 64), tuned=CodeTable(sha256="f" * 64))}
NEW_SOURCES = FingerprintTable(benchmark="a" * 64, command="b" * 64, sources={"k.c": "9" * 64, "k.h": "d" * 64})
NEW_BENCHMARK = FingerprintTable(benchmark="9" * 64, command="b" * 64, sources={"k.c": "c" * 64, "k.h": "d" * 64})
NEW_COMPILER = CompilerTable(name="gcc", version="12.3.0", build="gcc 12.3.0", command=("gcc", "-O2", "k.c"))
NOTHING_FOUND = {"outcome": "baseline", "controls": None, "claims": ()}


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({}, ("tuned anew",)),
        ({"fingerprint": NEW_SOURCES, "code": NEW_CODE}, ("kernel",)),
        ({"fingerprint": NEW_SOURCES}, ("tuned anew",)),  # a comment: the machine code is the same
        ({"fingerprint": NEW_BENCHMARK}, ("benchmark",)),
        ({"compiler": NEW_COMPILER, "code": NEW_CODE}, ("compiler",)),
        ({"compiler": NEW_COMPILER}, ("tuned anew",)),
        ({"compiler": NEW_COMPILER, "fingerprint": NEW_SOURCES, "code": NEW_CODE}, ("compiler", "kernel")),
        ({"code": NEW_CODE}, ("compiler",)),
        (NOTHING_FOUND, ("gain",)),
        ({**NOTHING_FOUND, "fingerprint": NEW_BENCHMARK}, ("benchmark",)),
        ({"outcome": "retired", "reason": "crashed", "claims": ()}, ("withdrawn",)),
        ({"outcome": "promoted", "reason": "smaller", "claims": ()}, ("tuned anew",)),
    ],
    ids=str,
)
def test_what_took_its_place_tells_what_ended_it(changes, ends):
    assert ends_by_successor(make_artifact(), make_artifact(**changes)) == ends


def test_only_what_is_stale_ends_an_artifact():
    findings = [Finding("sources", Effect.COSMETIC, ""), Finding("command", Effect.STALE, ""),
                Finding("benchmark", Effect.STALE, ""), Finding("compiler", Effect.NOTED, "")]  # fmt: skip
    assert ends_of(findings) == ("benchmark", "kernel")


def test_what_tells_more_of_a_proof_is_the_same_proof():
    told = make_artifact(provenance=Provenance(tool="a later version"), licences=())
    assert proof_of(told) == proof_of(make_artifact())
    assert goes_on(make_artifact(), told)


def test_digests_of_another_format_are_the_same_proof():
    before = make_artifact().code

    def rebuilt(arm: str, digit: str) -> BuildResult:
        recorded = {entry: getattr(pair, arm).sha256 for entry, pair in before.items()}
        digests = {entry: CodeDigest(digit * 64, former=(sha256,)) for entry, sha256 in recorded.items()}
        return BuildResult(Path("k"), digests, {}, "", 0.0)

    code = stored_code(rebuilt("baseline", "1"), rebuilt("tuned", "2"), before)
    assert is_same_code(code, before) and code != before
    renewed = make_artifact(code=code)
    assert proof_of(renewed) == proof_of(make_artifact())
    assert goes_on(make_artifact(), renewed)
    assert goes_on(renewed, renewed)
    assert ends_by_successor(make_artifact(), make_artifact(code=code, fingerprint=NEW_SOURCES)) == ("tuned anew",)
    assert ends_by_successor(renewed, make_artifact(code=NEW_CODE)) == ("compiler",)


@pytest.mark.parametrize("changes", [{"fingerprint": NEW_BENCHMARK}, {"code": NEW_CODE}, {"compiler": NEW_COMPILER}])
def test_what_was_proven_on_other_inputs_is_another_proof(changes):
    assert proof_of(make_artifact(**changes)) != proof_of(make_artifact())
    assert not goes_on(make_artifact(), make_artifact(**changes))


def test_a_claim_for_another_device_goes_on_and_another_for_the_same_one_does_not():
    first = make_artifact(claims=(measured_claim("a"),))
    both = make_artifact(claims=(measured_claim("a"), measured_claim("b")))
    anew = make_artifact(claims=(measured_claim("a").model_copy(update={"samples": "other.csv"}),))
    assert goes_on(first, both) and not goes_on(both, first)
    assert proof_of(both) != proof_of(first)
    assert not goes_on(first, anew)
