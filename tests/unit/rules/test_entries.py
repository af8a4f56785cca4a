"""What an exact gain costs single entry functions, from values alone, and how every face says it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pytest_compileiq.artifact import MOST_OBJECTIVES, Artifact, CodePair, CodeTable, CompilerTable
from pytest_compileiq.claim import Claim
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.report.artifact import artifact_lines
from pytest_compileiq.report.change import terminal_lines
from pytest_compileiq.report.claims import report_on
from pytest_compileiq.rules.claims import WorseEntry, worse_entries
from pytest_compileiq.rules.diff import Side, compare
from tests.unit.artifacts import TARGET, make_artifact


def pair(baseline: dict[str, int], tuned: dict[str, int]) -> CodePair:
    return CodePair(
        baseline=CodeTable(sha256="e" * 64, metrics=baseline), tuned=CodeTable(sha256="f" * 64, metrics=tuned)
    )


def claim(objective: str, before: int, after: int, direction: str = "minimize") -> Claim:
    return Claim(
        device="sm_90a", workload="w", objective=objective, direction=direction, kind="exact", baseline_value=before,
        tuned_value=after,
    )  # fmt: skip


def artifact(*claims: Claim, **code: CodePair) -> Artifact:
    entries = {"a": pair({"registers": 57}, {"registers": 30}), "_Z1bPf": pair({"registers": 20}, {"registers": 30})}
    return make_artifact(claims=claims or (claim("registers", 57, 30),), code=code or entries)


LOST = (WorseEntry("registers", "_Z1bPf", 20, 30),)


@pytest.mark.parametrize(
    ("claims", "lost"),
    [
        ((claim("registers", 57, 30),), LOST),
        ((claim("registers of a", 57, 30),), LOST),
        ((claim("registers of a", 57, 30), claim("registers of *", 57, 30)), LOST),
        ((claim("registers of a", 57, 57), claim("code_bytes", 9, 8)), LOST),
        ((claim("registers of b", 20, 30), claim("code_bytes", 9, 8)), ()),  # the claim says so itself
        ((claim("code_bytes", 9, 8),), ()),
        ((claim("registers", 57, 60, "maximize"),), (WorseEntry("registers", "a", 57, 30),)),
    ],
)
def test_an_entry_that_lost_what_its_claim_did_not_is_named_once(
    claims: tuple[Claim, ...], lost: tuple[WorseEntry, ...]
) -> None:
    assert worse_entries(artifact(*claims)) == lost


def test_a_score_or_a_time_is_of_no_entry() -> None:
    score = claim("registers per thread", 57, 30)
    assert worse_entries(artifact(score, r=pair({"registers per thread": 1}, {"registers per thread": 2}))) == ()


def test_the_host_code_of_a_cuda_library_is_no_entry_that_a_metric_is_of() -> None:
    code = {name: pair({"code_bytes": 8}, {"code_bytes": 9}) for name in ("scale", "host")}
    bytes_of = (claim("code_bytes", 8, 7), claim("code_bytes of *", 8, 7))
    by_nvcc = CompilerTable(name="nvcc", version="13.3", build="nvcc", command=("nvcc",))
    made = make_artifact(claims=bytes_of, code=code, compiler=by_nvcc)
    assert worse_entries(made) == (WorseEntry("code_bytes", "scale", 8, 9),)
    assert any("of scale: code_bytes of *" in line for line in artifact_lines("k", made))


def test_more_objectives_than_a_search_records_are_refused_and_each_is_matched_with_the_entries_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("pytest_compileiq.report.artifact.matching", lambda name, _: asked.append(name) or ["a"])
    claims = [
        claim(f"registers of a{number % MOST_OBJECTIVES}", 9, 8).model_copy(update={"workload": f"w{number}"})
        for number in range(2 * MOST_OBJECTIVES)
    ]
    shown = list(artifact_lines("k", artifact(*claims)))
    assert len(asked) == MOST_OBJECTIVES and sum("claim " in line for line in shown) == 2 * MOST_OBJECTIVES
    with pytest.raises(ValidationError, match="more than 32 objectives"):
        artifact(*claims, claim("code_bytes", 9, 8))


def test_an_arm_without_the_metric_is_not_compared() -> None:
    assert worse_entries(artifact(k=pair({"registers": 5}, {}), m=pair({}, {"registers": 5}))) == ()


def test_tune_replay_show_and_diff_say_it() -> None:
    made = artifact(claim("registers of a", 57, 30), claim("registers", 57, 30))
    assert "worse: registers of b: 20 → 30" in report_on("t", "k", TARGET, Verdict.TUNED, "", made).notes
    shown = list(artifact_lines("k", made))
    assert "  worse      registers of b: 20 → 30" in shown
    assert "  claim      exact on w, of a: registers of a 57 → 30" in shown
    assert "  claim      exact on w, the largest of the whole build: registers 57 → 30" in shown
    change = compare(None, Side("k", TARGET, made))
    assert any(line.startswith("!") and "worse: registers of b: 20 → 30" in line for line in terminal_lines("", "", [change], []))  # fmt: skip


def test_show_says_how_several_entries_became_one_number() -> None:
    code = {name: pair({"registers": 5, "code_bytes": 8}, {}) for name in ("k1", "k2", "other")}
    shown = "\n".join(artifact_lines("k", artifact(claim("registers of k?", 5, 4), claim("code_bytes of k*", 16, 9), **code)))  # fmt: skip
    assert "the largest of k1, k2: registers of k?" in shown
    assert "the sum of k1, k2: code_bytes of k*" in shown
