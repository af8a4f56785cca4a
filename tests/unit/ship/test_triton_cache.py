"""What a JIT's cache holds, joined with what was counted: every way in which they can disagree."""

from __future__ import annotations

import pytest

from pytest_compileiq.artifact import CodePair, CodeTable, CompilerTable
from pytest_compileiq.cli.main import main
from pytest_compileiq.ship import verify as triton_cache
from pytest_compileiq.ship.binaries import BuiltEntry, Contents
from pytest_compileiq.ship.verify import Match, verdict, verify_triton_cache
from pytest_compileiq.store.store import Store
from tests.unit.artifacts import CONTROLS, make_artifact

DIGEST = {"proven": "f" * 64, "baseline": "e" * 64, "neither": "d" * 64}
REFUSAL = "softmax: proven on NVIDIA H200, not on NVIDIA_H200"


@pytest.fixture
def verify(tmp_path, monkeypatch):
    """Verify a cache that holds these kernels of ``softmax``, with these counts."""
    store = Store(tmp_path / "acf")
    target = "sm_90a-triton3.9.ptxas13.3"
    file = make_artifact().controls.model_copy(
        update={"file": make_artifact().controls.file.replace("x86-64-v3-gcc12", target)}
    )
    pair = CodePair(baseline=CodeTable(sha256=DIGEST["baseline"]), tuned=CodeTable(sha256=DIGEST["proven"]))
    compiler = CompilerTable(name="triton", version="3.9.0", build="b", command=("triton", "k.py::k"))
    store.write(
        "softmax", make_artifact(target=target, controls=file, compiler=compiler, code={"softmax": pair}),
        controls=[CONTROLS], samples=(),
    )  # fmt: skip
    cache = tmp_path / "cache"
    cache.mkdir()

    def verified(standings, counts=None):
        kernels = [
            BuiltEntry(cache / f"{number}.cubin", "sm_90a", "softmax", DIGEST[standing])
            for number, standing in enumerate(standings)
        ]
        kernels.append(BuiltEntry(cache / "other.cubin", "sm_90a", "other", "0" * 64))
        (cache / "a.cubin").touch()
        monkeypatch.setattr(triton_cache, "read_binaries", lambda paths: Contents(tuple(kernels)))
        report = counts if counts is None else {"problem": None, "artifacts": {"softmax": counts}}
        return verify_triton_cache(store, cache, (), report)

    return verified


def counted(applied: int, refused: int = 0) -> dict:
    reasons = {REFUSAL: refused} if refused else {}
    return {"shipped": True, "looked_for": applied + refused, "applied": applied, "refused": reasons}


def test_every_cached_kernel_is_proven_baseline_neither_or_of_no_artifact(verify):
    lines = verify(["proven", "proven", "baseline", "neither"])
    assert "of 5 kernels 2 proven, 1 baseline, 1 neither, 1 of no artifact" in lines[-1].message
    assert lines[-1].verdict is verdict(lines) is Match.DIFFERS
    assert verify(["proven"])[-1].verdict is Match.RIGHT


@pytest.mark.parametrize(
    ("cached", "counts", "match", "told"),
    [
        (["proven"], counted(3), Match.RIGHT, "looked for 3x, applied 3x, and the proven code is cached"),
        (["baseline"], counted(2), Match.DIFFERS, "applied 2x, and the compiled code is not the proven code"),
        ([], counted(2), Match.CANNOT_TELL, "applied 2x, and no kernel of it is cached"),
        (["proven"], counted(0), Match.CANNOT_TELL, "never asked for; the proven code is cached all the same"),
        (["baseline"], counted(0, 4), Match.DIFFERS, f"looked for 4x, applied 0x: {REFUSAL}, so it is not in use"),
        ([], counted(0), Match.DIFFERS, "never asked for, so it is not in use"),
    ],
)
def test_counts_and_cache_bear_each_other_out_or_the_line_says_how_not(verify, cached, counts, match, told):
    last = verify(cached, counts)[-1]
    assert last.verdict is match and last.message.startswith("softmax: ") and told in last.message


def test_counts_without_a_cache_are_a_wrong_call(tmp_path, monkeypatch, capsys):
    (tmp_path / "acf").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["verify-binary", "k.cubin", "--counts", "c"]) == 2
    assert "add --triton-cache DIR, or use acf expect" in capsys.readouterr().err
