"""The staleness table, row by row."""

from __future__ import annotations

from dataclasses import replace
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
from pytest_compileiq.outcome import MovedCode
from pytest_compileiq.rules.staleness import (
    Effect,
    Finding,
    Rebuilt,
    are_elsewhere,
    choose,
    ends_by_successor,
    ends_of,
    goes_on,
    judge,
    moved_code,
    proof_of,
)
from tests.unit.artifacts import NEW_CODE, NEW_SOURCES, TARGET, make_artifact, measured_claim

ARTIFACT = make_artifact()
SAME = Rebuilt(
    compiler=ARTIFACT.compiler, fingerprint=ARTIFACT.fingerprint, baseline={"k": CodeDigest("e" * 64)},
    tuned={"k": CodeDigest("f" * 64)}, architecture="x86-64-v3",
)  # fmt: skip
OTHER_CODE = {"k": CodeDigest("9" * 64)}


def sources(**changes):
    return ARTIFACT.fingerprint.model_copy(
        update={"sources": {**ARTIFACT.fingerprint.sources, **{k.replace("_", "."): v for k, v in changes.items()}}}
    )


def fingerprint(**changes):
    return ARTIFACT.fingerprint.model_copy(update=changes)


def compiler(**changes):
    return ARTIFACT.compiler.model_copy(update=changes)


def command(*words, **changes):
    return replace(SAME, fingerprint=fingerprint(command="1" * 64), compiler=compiler(command=words), **changes)


ROWS = {
    "nothing differs": (SAME, []),
    "a source, same code": (replace(SAME, fingerprint=sources(k_c="1" * 64)), [("sources", Effect.COSMETIC, "k.c (changed)")]),
    "a source, other code": (replace(SAME, fingerprint=sources(k_c="1" * 64), tuned=OTHER_CODE), [("sources", Effect.STALE, "k.c (changed)")]),
    "a source added": (replace(SAME, fingerprint=sources(n_h="1" * 64)), [("sources", Effect.COSMETIC, "n.h (added)")]),
    "a source gone": (replace(SAME, fingerprint=fingerprint(sources={"k.c": "c" * 64})), [("sources", Effect.COSMETIC, "k.h (no longer read)")]),
    "the command, same code": (command("gcc", "-O1", "k.c"), [("command", Effect.COSMETIC, "(gone: -O2; new: -O1): the machine code is the same")]),
    "the command, other code": (command("gcc", "-O1", "k.c", tuned=OTHER_CODE), [("command", Effect.STALE, "(gone: -O2; new: -O1): the machine code is another, in k (tuned arm)")]),
    "the command's order": (command("gcc", "k.c", "-O2"), [("command", Effect.COSMETIC, "(another order)")]),
    "lines of the source": (command("gcc", "-O2", "k.c", "-lineinfo"), [("command", Effect.COSMETIC, "(new: -lineinfo): the machine code is the same")]),
    "what is linked": (command("gcc", "-O2", "k.c", "-lm"), [("command", Effect.STALE, "(new: -lm): something else is linked")]),
    "the compiler's build, same code": (replace(SAME, compiler=compiler(version="12.3.0")), [("compiler", Effect.NOTED, "12.3.0")]),
    "the compiler's build, other code": (replace(SAME, compiler=compiler(version="12.3.0"), baseline=OTHER_CODE), [("compiler", Effect.STALE, "12.3.0")]),
    "the benchmark": (replace(SAME, fingerprint=fingerprint(benchmark="1" * 64)), [("benchmark", Effect.STALE, "the benchmark changed")]),
    "the environment, same code": (replace(SAME, fingerprint=fingerprint(environment={"A": "1"})), [("environment", Effect.COSMETIC, "A was not set and is '1': the machine code is the same")]),
    "the environment, other code": (replace(SAME, fingerprint=fingerprint(environment={"A": "1"}), tuned=OTHER_CODE), [("environment", Effect.STALE, "A was not set and is '1': the machine code is another, in k")]),
    "same inputs, other code": (replace(SAME, tuned=OTHER_CODE), [("unexplained", Effect.STALE, "every recorded input is the same")]),
    "the tuned arm is missing": (replace(SAME, tuned=None), [("unexplained", Effect.STALE, "every recorded input is the same")]),
    "same code, other numbers": (replace(SAME, baseline={"k": CodeDigest("e" * 64, {"code_bytes": 9999})}), [("code", Effect.STALE, "code_bytes 10 of k (baseline arm), whose machine code has 9999")]),
    "same code, more numbers": (replace(SAME, tuned={"k": CodeDigest("f" * 64, {"calls": 1})}), []),
    "other numbers of another compiler": (replace(SAME, compiler=compiler(version="12.3.0"), baseline={"k": CodeDigest("e" * 64, {"code_bytes": 9999})}), [("compiler", Effect.NOTED, "12.3.0")]),
    "an entry appears": (replace(SAME, baseline={**SAME.baseline, "b": CodeDigest("9" * 64)}), [("unexplained", Effect.STALE, "in b")]),
}  # fmt: skip


@pytest.mark.parametrize(("count", "said"), [(5, "f4.h (added): the"), (6, "f4.h (added), and 1 more: the")])
def test_many_files_are_counted(count, said):
    added = {f"f{number}.h": "1" * 64 for number in range(count)}
    found = replace(SAME, fingerprint=fingerprint(sources={**ARTIFACT.fingerprint.sources, **added}))
    (finding,) = judge(ARTIFACT, found)
    assert said in finding.message
    assert len(finding.files) == count


@pytest.mark.parametrize("row", ROWS)
def test_a_difference_has_its_effect(row):
    found, expected = ROWS[row]
    findings = judge(ARTIFACT, found)
    assert [(finding.field, finding.effect) for finding in findings] == [
        (field, effect) for field, effect, _ in expected
    ]
    for finding, (_, _, said) in zip(findings, expected, strict=True):
        assert said in finding.message


def test_the_parts_of_a_benchmark_that_changed_are_named_with_the_files_that_still_hold_them():
    before = {"test t.py::t": "0", "helper gone.py::h": "0", "helper /etc/passwd::h": "0", "workload w": "0"}
    now = {"test t.py::t": "1", "fixture conftest.py::f": "1", "workload w": "1"}
    artifact = make_artifact(fingerprint=fingerprint(parts={name: sha * 64 for name, sha in before.items()}))
    (finding,) = judge(artifact, replace(SAME, fingerprint=fingerprint(benchmark="1" * 64, parts=now)))
    assert finding.message == (
        "the benchmark changed: fixture conftest.py::f (added), helper /etc/passwd::h (gone), "
        "helper gone.py::h (gone), test t.py::t, workload w"
    )
    assert finding.files == ("conftest.py", "t.py")


def test_a_value_that_differs_or_is_gone_is_named_and_an_older_artifact_has_none():
    now = fingerprint(values={"parameter n": "1" * 64, "parameter m": ""})
    then = fingerprint(values={"parameter n": "2" * 64, "parameter m": "3" * 64})
    (finding,) = judge(make_artifact(fingerprint=then), replace(SAME, fingerprint=now))
    assert (finding.effect, finding.message) == (Effect.STALE, "the benchmark changed: parameter m, parameter n")
    (finding,) = judge(make_artifact(fingerprint=fingerprint()), replace(SAME, fingerprint=now))
    assert finding.effect is Effect.NOTED and "parameter n, parameter m; --tune-budget=0 records" in finding.message


def test_a_baseline_outcome_has_no_tuned_arm_to_compare():
    replaced = ARTIFACT.model_copy(update={"outcome": "baseline"})
    assert judge(replaced, replace(SAME, tuned=None)) == []


@pytest.mark.parametrize(
    ("targets", "kind"),
    [
        ([TARGET, "armv8-gcc12"], "exact"),
        (["x86-64-v3-gcc13"], "other-compiler"),
        (["x86-64-v2-gcc12", "x86-64-gcc12"], "other-architecture"),
        ([], "missing"),
    ],
)
def test_the_architecture_selects_and_nothing_falls_back(targets, kind):
    choice = choose(targets, TARGET, "x86-64-v3")
    assert choice.kind == kind
    assert choice.artifact_target == {"exact": TARGET, "other-compiler": "x86-64-v3-gcc13"}.get(kind)


@pytest.mark.parametrize(
    ("stored", "chosen_by", "elsewhere"),
    [
        ({"znver3-gcc12": "machine"}, "machine", True),
        ({"znver3-gcc12": "machine", "znver4-gcc12": "machine"}, "machine", True),
        ({"aarch64-gcc12": "default"}, "default", True),
        ({"x86-64-v2-gcc12": "test"}, "test", False),  # what the text asks for is the same on every machine
        ({"x86-64-v2-gcc12": "test"}, "machine", False),  # the text asked for something and no longer does
        ({"x86-64-v2-gcc12": "test"}, "default", False),
        ({"znver3-gcc12": "machine"}, "test", False),
        ({"x86-64-gcc12": "default"}, "machine", False),
        ({"znver3-gcc12": "machine", "x86-64-v2-gcc12": "test"}, "machine", False),
        ({"x86-64-v4-gcc11": "machine"}, "machine", False),  # another compiler may call the same processor so
    ],
)
def test_only_a_machine_that_chose_as_this_one_does_is_another_machine(stored, chosen_by, elsewhere):
    assert are_elsewhere(stored, TARGET, chosen_by) is elsewhere


def test_entries_whose_code_moved_are_named_with_architecture_and_arm():
    pair = ARTIFACT.code["k"]
    artifact = ARTIFACT.model_copy(update={"code": {"k@sm_90a": pair, "k@sm_100a": pair}})
    same, other = CodeDigest("f" * 64), CodeDigest("9" * 64)
    found = replace(
        SAME,
        fingerprint=sources(k_c="1" * 64),
        baseline={"k@sm_90a": CodeDigest("e" * 64), "k@sm_100a": other},
        tuned={"k@sm_90a": other, "k@sm_100a": same},
    )
    assert moved_code(artifact, found) == (
        MovedCode("k", "sm_100a", ("baseline",)),
        MovedCode("k", "sm_90a", ("tuned",)),
    )
    (finding,) = judge(artifact, found)
    assert finding.message.endswith("the machine code is another, in k for sm_100a, k for sm_90a (tuned arm)")


def test_a_command_that_the_metadata_shows_otherwise_than_it_is_is_told():
    tampered = ARTIFACT.model_copy(update={"compiler": compiler(command=(*ARTIFACT.compiler.command, "-fwrapv"))})
    (finding,) = judge(tampered, SAME)
    assert finding.effect is Effect.COSMETIC and "the compiler's command changed (gone: -fwrapv)" in finding.message


def test_many_entries_are_counted():
    many = {f"k{number}": CodeDigest("9" * 64) for number in range(6)}
    (finding,) = judge(ARTIFACT, replace(SAME, baseline={**SAME.baseline, **many}))
    assert finding.message.endswith("in k0, k1, k2, k3, k4, and 1 more")


PARAMS = ARTIFACT.model_copy(update={"compiler": compiler(name="params", version="", build="xgboost 2.1", command=("params", "rate=0.1"))})  # fmt: skip
SAME_PARAMS = replace(SAME, compiler=PARAMS.compiler)
OF_PARAMS = {
    "a package": (
        replace(SAME_PARAMS, compiler=PARAMS.compiler.model_copy(update={"build": "xgboost 2.2"}), tuned=OTHER_CODE),
        Effect.STALE, "proven with xgboost 2.1, here with xgboost 2.2",
    ),
    "a default": (
        replace(SAME_PARAMS, fingerprint=fingerprint(command="1" * 64), tuned=OTHER_CODE,
                compiler=PARAMS.compiler.model_copy(update={"command": ("params", "rate=0.2")})),
        Effect.STALE, "the defaults changed (gone: rate=0.1; new: rate=0.2)",
    ),
    "a source": (replace(SAME_PARAMS, fingerprint=sources(k_c="1" * 64), tuned=OTHER_CODE), Effect.STALE, "k.c (changed)"),
    "a comment": (
        replace(SAME_PARAMS, fingerprint=sources(k_c="1" * 64)),
        Effect.COSMETIC, "k.c (changed): comments, docstrings or formatting alone",
    ),
    "the record": (replace(SAME_PARAMS, tuned=OTHER_CODE), Effect.STALE, "the recorded digest is none of the committed knobs, packages and sources"),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_PARAMS)
def test_where_nothing_is_compiled_no_finding_speaks_of_a_compiler_or_its_code(what):
    found, effect, said = OF_PARAMS[what]
    (finding,) = judge(PARAMS, found)
    assert (finding.effect, finding.message) == (effect, said)


def test_judge_of_an_edited_neighbour_with_functions_notes_it():
    beside = CodePair(baseline=CodeTable(sha256="3" * 64, metrics={"code_bytes": 8}), tuned=CodeTable(sha256="3" * 64))
    of_all = make_artifact(functions=("k",), code={**ARTIFACT.code, "other": beside})
    named = of_all.model_copy(update={"claims": (measured_claim("cpu"),)})
    edited = {"other": CodeDigest("4" * 64, {"code_bytes": 9})}
    found = replace(SAME, baseline={**SAME.baseline, **edited}, tuned={**SAME.tuned, **edited})
    told = [(finding.effect, finding.message) for finding in judge(named, found)]
    assert told == [(Effect.NOTED, "other machine code in other, which this test does not stand for")]
    gone = judge(named, SAME)
    assert [finding.effect for finding in gone] == [Effect.NOTED], "a neighbour that was removed"
    assert [finding.effect for finding in judge(of_all, found)] == [Effect.STALE], "it claims code_bytes of the build"
    unnamed = named.model_copy(update={"functions": ()})
    assert [finding.effect for finding in judge(unnamed, found)] == [Effect.STALE], "nothing says who is a neighbour"
    moved = judge(named, replace(found, tuned={**found.tuned, "k": CodeDigest("5" * 64)}))
    assert Effect.STALE in {finding.effect for finding in moved}


# what ends an artifact, from the version that took its place; and what is the same proof


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
