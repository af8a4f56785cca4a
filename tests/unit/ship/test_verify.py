"""What an entry of a built file is found to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_compileiq.ship.binaries import BuiltEntry, Contents
from pytest_compileiq.ship.verify import Match, compare
from tests.unit.artifacts import make_artifact


@pytest.mark.parametrize("is_separate", [True, False])
def test_compare_code_of_neither_arm_says_that_it_is_relocatable(is_separate):
    target = "sm_90a-nvcc13.3"
    kernel = BuiltEntry(Path("k.so"), "sm_90a", "k", "0" * 64, is_separate=is_separate)
    _, (finding,) = compare(Contents((kernel,)), {("k", target): make_artifact(target=target)}, "k.so", named=False)
    assert finding.verdict is Match.DIFFERS
    assert finding.what == f"neither proven arm of k ({target}){'; other code: -rdc' if is_separate else ''}"


def test_compare_of_what_nvlink_linked_asks_for_the_object_of_an_artifact_to_be_linked():
    target = "sm_90a-nvcc13.3"
    made = make_artifact(target=target)
    source = next(iter(made.fingerprint.sources))
    compiler = made.compiler.model_copy(update={"command": ("nvcc", "-rdc=true", source)})
    made = made.model_copy(update={"compiler": compiler})
    kernel = BuiltEntry(Path("program"), "sm_90a", "k", "0" * 64, is_separate=True, is_linked=True)
    (line,), (finding, _) = compare(Contents((kernel, kernel)), {("k", target): made}, "program", named=False)
    assert finding.verdict is line.verdict is Match.CANNOT_TELL
    assert line.message.endswith(f"give the object file of {source} for k ({target}): k"), "and k once"


@pytest.mark.parametrize(
    ("kind", "command", "verdict"),
    [
        ("blob", "ptxas -arch sm_80 --apply-controls k.acf", Match.DIFFERS),
        ("blob", "ptxas -arch sm_80", None),
        ("options", "ptxas -arch sm_80", Match.CANNOT_TELL),  # an option of nvcc's leaves no trace
    ],
)
def test_compare_of_another_architecture_tells_controls_that_were_not_proven_for_it(kind, command, verdict):
    target = "sm_90a-nvcc13.3"
    made = make_artifact(target=target)
    knobs = {} if kind == "blob" else {"--use_fast_math": ""}
    made = made.model_copy(
        update={
            "compiler": made.compiler.model_copy(update={"name": "nvcc"}),
            "controls": made.controls.model_copy(update={"kind": kind, "knobs": knobs}),
        }
    )
    other = BuiltEntry(Path("k.fatbin"), "sm_80", "k", "0" * 64, command=command)
    proven = BuiltEntry(Path("k.fatbin"), "sm_90a", "k", made.code["k"].tuned.sha256)
    lines, _ = compare(Contents((proven, other)), {("k", target): made}, "k.fatbin", named=False)
    verdicts = [line.verdict for line in lines if "sm_80" in line.message]
    assert verdicts == ([] if verdict is None else [verdict])
    assert [line.verdict for line in lines if "(sm_90a) is the proven code" in line.message] == [Match.RIGHT]


@pytest.mark.parametrize(("sha", "said"), [("b" * 64, ["differs"]), ("a" * 64, ["right"])])
def test_compare_code_that_both_arms_have_says_right_only_beside_proven_code(sha, said):
    target = "sm_90a-nvcc13.3"
    made = make_artifact(target=target)
    baseline, tuned = (made.code["k"].baseline.model_copy(update={"sha256": each * 64}) for each in "ba")
    pairs = {"k": (baseline, tuned), "same": (tuned, tuned)}
    code = {name: made.code["k"].model_copy(update={"baseline": b, "tuned": t}) for name, (b, t) in pairs.items()}
    here = [BuiltEntry(Path("k.cubin"), "sm_90a", "k", sha), BuiltEntry(Path("k.cubin"), "sm_90a", "same", "a" * 64)]
    made = make_artifact(target=target).model_copy(update={"code": code})
    lines, _ = compare(Contents(tuple(here)), {("k", target): made}, "k.cubin", named=False)
    assert [line.verdict.name.lower() for line in lines] == said
