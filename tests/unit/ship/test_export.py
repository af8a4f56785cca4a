"""``acf export --runtime``: what lies in the directory, and what its one module answers."""

from __future__ import annotations

import ast
import importlib.util
import json
import logging
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import pytest

from pytest_compileiq.artifact import CodePair, CodeTable, CompilerTable, Controls, FingerprintTable
from pytest_compileiq.claim import Claim, DecisionRecord, Summary
from pytest_compileiq.cli.main import main
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.ship import acf_runtime
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.triton.marker import Triton
from tests import needs
from tests.files import write_files
from tests.unit.artifacts import make_artifact

REPOSITORY = Path(__file__).parents[3]
TARGET, BUILD, BLOB = "sm_90a-triton3.9.ptxas13.3", "cuda_13.3.r13.3/compiler.1_0", b"an opaque blob"
PTX = "// kernels.py:8:0\n.version 9.3\n.target sm_90a\nret;\n"
SUMMARY = Summary(n=64, mean=1.0, std=0.1, p5=1.0, p50=1.0, p95=1.0, p99=1.0)
MEASURED = Claim(
    device="NVIDIA H200", workload="default", objective="runtime", kind="gain", speedup=1.1, speedup_low=1.05,
    speedup_high=1.15, p_value=0.001, cohens_d=1.0, samples="s.csv", baseline=SUMMARY, tuned=SUMMARY,
    test=DecisionRecord(alpha=0.01, level=0.01, look=1, processes=8, flips=100, seed=0, finalists=1),
)  # fmt: skip
EXACT = Claim(device="sm_90a", workload="w", objective="registers", kind="exact", baseline_value=9, tuned_value=8)


def artifact(**changes):
    values = {
        "target": TARGET,
        "controls": Controls(
            kind="blob", file=f"{TARGET}-{acf_sha()[:8]}.acf", sha256=acf_sha(), size_bytes=len(BLOB),
            knobs={"num_warps": 8, "--maxrregcount=": 64},
        ),
        "compiler": CompilerTable(name="triton", version="3.9.0", build=f"ptxas 13.3.73 {BUILD}", command=("triton", "k.py::k")),
        "fingerprint": FingerprintTable(benchmark="a" * 64, command="b" * 64, sources={}),
        "claims": (EXACT,),
    }  # fmt: skip
    return make_artifact(**(values | changes))


def acf_sha() -> str:
    return sha256_hex(BLOB)


@pytest.fixture
def store(tmp_path, monkeypatch) -> Store:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACF_DISABLE", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    made = Store(tmp_path / "acf")
    made.write("softmax", artifact(), controls=[BLOB], samples=())
    return made


def load(directory: Path) -> ModuleType:
    """The exported module, as production imports it."""
    spec = importlib.util.spec_from_file_location("exported_runtime", directory / "acf_runtime.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def exported(store, tmp_path) -> ModuleType:
    assert main(["export", "--runtime", "out"]) == 0
    return load(tmp_path / "out")


def test_what_was_proven_is_given_with_all_that_it_was_proven_with(exported, tmp_path):
    found = exported.resolve("softmax", "sm_90a", "NVIDIA H200", BUILD)
    path = tmp_path / "out" / "acfs" / f"{acf_sha()}.acf"
    assert found.path == str(path) and path.read_bytes() == BLOB
    assert found.options == (f"--apply-controls={path}", "--maxrregcount=64")
    assert dict(found.params) == {"num_warps": 8}
    assert TARGET in found.reason


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (("none", "sm_90a"), "none: not in"),
        (("softmax", "sm_80"), "proven for sm_90a, not for sm_80"),
        (("softmax", "sm_90a", None, "cuda_13.4"), f"proven with {BUILD}, not with cuda_13.4"),
        (("softmax", "sm_90a", None, None, "0" * 64), "no PTX was exported to compare this with"),
        ((["softmax"], "sm_90a"), "TypeError"),
    ],
)
def test_what_was_not_proven_is_refused_with_the_reason(exported, question, reason):
    found = exported.resolve(*question)
    assert found.path is None and found.options == () and reason in found.reason


def test_a_measured_claim_holds_for_its_device_and_an_exact_one_for_its_architecture(store, exported, tmp_path):
    assert exported.resolve("softmax", "sm_90a", "NVIDIA H100").path
    store.write("softmax", artifact(claims=(EXACT, MEASURED)), controls=[BLOB], samples=())
    assert main(["export", "--runtime", "measured"]) == 0
    measured = load(tmp_path / "measured")
    assert measured.resolve("softmax", "sm_90a", "NVIDIA H200").path
    assert "proven on NVIDIA H200, not on NVIDIA H100" in measured.resolve("softmax", "sm_90a", "NVIDIA H100").reason


def test_a_directory_with_a_blank_takes_all_but_the_files_that_a_jit_is_named(store, tmp_path, capsys):
    assert main(["export", "--runtime", "with a blank"]) == 2
    assert "'" + str(tmp_path / "with a blank") in (said := capsys.readouterr().err)
    assert said.endswith("would split at: choose another --runtime\n") and not (tmp_path / "with a blank").exists()
    data = b"num_warps=8\n"
    file = f"{TARGET}-{sha256_hex(data)[:8]}.acf"
    launch = Controls(kind="options", file=file, sha256=sha256_hex(data), size_bytes=len(data), knobs={"num_warps": 8})
    store.write("softmax", artifact(controls=launch), controls=[data], samples=())
    assert main(["export", "--runtime", "with a blank"]) == 0
    found = load(tmp_path / "with a blank").resolve("softmax", "sm_90a")
    assert found.path and not found.options and dict(found.params) == {"num_warps": 8}


def test_acf_disable_turns_off_by_name_or_all_at_any_time(exported, monkeypatch):
    assert exported.resolve("softmax", "sm_90a").path
    for value in ("softmax", "other, softmax", "all"):
        monkeypatch.setenv("ACF_DISABLE", value)
        found = exported.resolve("softmax", "sm_90a")
        assert found.path is None and f"ACF_DISABLE={value}" in found.reason
    monkeypatch.setenv("ACF_DISABLE", "other")
    assert exported.resolve("softmax", "sm_90a").path


@pytest.mark.parametrize("damage", ["bytes", "gone", "manifest", "schema"])
def test_a_damaged_export_is_a_reason_and_no_exception(exported, tmp_path, damage, caplog):
    (acf,) = (tmp_path / "out/acfs").iterdir()
    manifest = tmp_path / "out/manifest.json"
    {
        "bytes": lambda: acf.write_bytes(b"another blob"),
        "gone": acf.unlink,
        "manifest": lambda: manifest.write_text("{"),
        "schema": lambda: manifest.write_text('{"schema": 2, "artifacts": []}'),
    }[damage]()
    with caplog.at_level(logging.WARNING):
        found = exported.resolve("softmax", "sm_90a")
    assert found.path is None and found.reason in caplog.text


def test_every_answer_is_counted_and_each_is_logged_once(exported, caplog):
    def ask():
        for _ in range(50):
            exported.resolve("softmax", "sm_90a")
            exported.resolve("softmax", "sm_80")

    with caplog.at_level(logging.INFO):
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    counts = exported.report()["artifacts"]["softmax"]
    refusal = "softmax: proven for sm_90a, not for sm_80"
    assert counts == {"shipped": True, "looked_for": 400, "applied": 200, "refused": {refusal: 200}}
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_the_exported_module_needs_the_standard_library_alone(exported, tmp_path):
    tree = ast.parse((tmp_path / "out/acf_runtime.py").read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
    code = "import acf_runtime; print(acf_runtime.resolve('softmax', 'sm_90a').path)"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.stdout.strip().endswith(".acf"), done.stderr


def test_stale_artifacts_stop_an_export_or_are_left_out_with_the_reason(store, tmp_path, capsys):
    fingerprint = FingerprintTable(benchmark="a" * 64, command="b" * 64, sources={"k.py": "c" * 64})
    store.write("softmax", artifact(fingerprint=fingerprint), controls=[BLOB], samples=())
    assert main(["export", "--runtime", "out"]) == 3
    assert "softmax" in capsys.readouterr().err and not (tmp_path / "out").exists()
    assert main(["export", "--runtime", "out", "--on-stale", "omit"]) == 0
    found = load(tmp_path / "out").resolve("softmax", "sm_90a")
    assert found.path is None and "is stale: k.py (is missing)" in found.reason


def test_a_module_of_an_installed_package_is_compared_where_it_is_installed(store, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path / "site")
    write_files(tmp_path / "site", {"norms/rms.py": "kernel\n"})
    sources = {"norms/rms.py": sha256_hex(b"kernel\n")}
    fingerprint = FingerprintTable(benchmark="a" * 64, command="b" * 64, sources=sources)
    store.write("softmax", artifact(fingerprint=fingerprint), controls=[BLOB], samples=())
    assert main(["export", "--runtime", "out"]) == 0
    write_files(tmp_path / "site", {"norms/rms.py": "another\n"})
    assert main(["export", "--runtime", "out"]) == 3


def test_a_config_is_given_as_the_values_of_a_launch(store, tmp_path):
    knobs = {"config": "BLOCK=64, DTYPE=tl.float16, num_warps=4", "num_warps": 8}
    store.write(
        "softmax",
        artifact(controls=artifact().controls.model_copy(update={"knobs": knobs})),
        controls=[BLOB],
        samples=(),
    )
    assert main(["export", "--runtime", "out"]) == 0
    found = load(tmp_path / "out").resolve("softmax", "sm_90a", "NVIDIA H200", BUILD)
    assert dict(found.params) == {"BLOCK": 64, "DTYPE": "tl.float16", "num_warps": 8}


def test_a_baseline_a_retired_and_a_foreign_artifact_are_left_out_and_stop_nothing(store, tmp_path, capsys):
    store.write("plain", artifact(outcome="baseline", controls=None, claims=()), controls=(), samples=())
    store.write("old", artifact(outcome="retired", reason="wrong on ragged rows"), controls=[BLOB], samples=())
    store.write(
        "host", make_artifact(fingerprint=artifact().fingerprint), controls=[b"-O3\n-funroll-loops\n"], samples=()
    )
    assert main(["export", "--runtime", "out"]) == 0
    said = capsys.readouterr()
    assert said.out == f"softmax ({TARGET})\n"
    assert "wrong on ragged rows" in said.err and "no JIT compiles with gcc" in said.err
    runtime = load(tmp_path / "out")
    assert "defaults were not beaten" in runtime.resolve("plain", "sm_90a").reason
    assert "was retired: wrong on ragged rows" in runtime.resolve("old", "sm_90a").reason


def test_an_export_twice_is_the_same_and_one_by_name_holds_that_alone(store, exported, tmp_path):
    before = (tmp_path / "out/manifest.json").read_bytes()
    assert main(["export", "--runtime", "out"]) == 0
    assert (tmp_path / "out/manifest.json").read_bytes() == before
    store.write("second", artifact(), controls=[BLOB], samples=())
    assert main(["export", "--runtime", "one", "second"]) == 0
    (only,) = json.loads((tmp_path / "one/manifest.json").read_text())["artifacts"]
    assert only["name"] == "second"


def test_a_ptx_kernel_is_known_by_what_its_ptx_does(store, tmp_path):
    (tmp_path / "k.ptx").write_text(PTX)
    sha = sha256_hex(PTX.encode())
    target = "sm_90a-ptxas13.3"
    controls = artifact().controls.model_copy(update={"file": f"{target}-{acf_sha()[:8]}.acf"})
    ptxas = artifact(
        target=target,
        controls=controls,
        compiler=CompilerTable(name="ptxas", version="13.3.73", build=BUILD, command=("ptxas", "k.ptx")),
        fingerprint=FingerprintTable(benchmark="a" * 64, command="b" * 64, sources={"k.ptx": sha}),
    )
    store.write("add", ptxas, controls=[BLOB], samples=())
    assert main(["export", "--runtime", "out"]) == 0
    runtime = load(tmp_path / "out")
    elsewhere = PTX.replace("kernels.py", "/elsewhere/kernels.py")
    assert runtime.resolve("add", "sm_90a", None, BUILD, runtime.ptx_sha256(elsewhere)).path
    other = runtime.ptx_sha256(PTX.replace("ret", "exit"))
    assert "this PTX is not the one proven" in runtime.resolve("add", "sm_90a", None, BUILD, other).reason


def test_the_ptx_digest_is_blind_to_where_the_kernel_came_from_and_to_nothing_else():
    debug = '.file 1 "/a/k.py"\n\t.loc\t1 8 0 // k.py:8\nret;\n.section\t.debug_str\n{\n.b8 115\n}\n.section .debug_macinfo { }\n'
    assert acf_runtime.ptx_sha256(debug) == acf_runtime.ptx_sha256("ret;\n")
    assert acf_runtime.ptx_sha256("ret;\nret;") != acf_runtime.ptx_sha256("ret;")


def test_a_compiler_says_its_build_or_none(tmp_path):
    tool = tmp_path / "ptxas"
    tool.write_text(f"#!/bin/sh\necho ptxas: NVIDIA\necho Build {BUILD}\n")
    tool.chmod(0o755)
    assert acf_runtime.ptxas_build(str(tool)) == BUILD
    assert acf_runtime.ptxas_build(str(tmp_path / "none")) is None


# ── Triton ───────────────────────────────────────────────────────────────────────────────────────────────────────

KERNELS = REPOSITORY / "tests" / "kernels"
SOFTMAX = Triton(
    "triton_kernels/kernels.py::softmax",
    signature={"out": "*fp32:16", "x": "*fp32:16", "row_stride": "i32:16", "columns": "i32"},
    constexprs={"BLOCK": 2048},
    arch="sm_90a",
)


@needs.triton
@needs.ptxas
def test_a_jit_cache_gives_the_proven_ptx_and_is_told_right_from_wrong(tmp_path, monkeypatch, capsys):
    """The committed Triton artifact, compiled by Triton into caches with its ACF and without."""
    monkeypatch.delenv("ACF_DISABLE", raising=False)
    store = Store(REPOSITORY / "acf")
    committed = store.read("triton-softmax", *store.targets("triton-softmax"))
    builder = SOFTMAX.resolve(Place(KERNELS, REPOSITORY))
    knobs = dict(committed.controls.knobs)
    controls = builder.parse("blob", store.read_controls("triton-softmax", committed), knobs)
    for arm, given in (("tuned", controls), ("baseline", None)):
        builder.build(given, tmp_path / arm, timeout_s=100)
    acf = ["--acf-dir", str(store.root)]
    assert main([*acf, "verify-binary", "--triton-cache", str(tmp_path / "tuned/cache")]) == 0
    assert main([*acf, "verify-binary", "--triton-cache", str(tmp_path / "baseline/cache")]) == 1
    assert "softmax (sm_90a) is the baseline of triton-softmax" in capsys.readouterr().out

    cache = ["--triton-cache", str(tmp_path / "tuned/cache")]
    assert main([*acf, "export", "--runtime", str(tmp_path / "out"), *cache, "triton-softmax"]) == 0
    runtime = load(tmp_path / "out")
    build = committed.compiler.build.split()[-1]
    for arm, applied in (("tuned", True), ("baseline", False)):
        ptx = runtime.ptx_sha256((tmp_path / arm / "kernel.ptx").read_text())
        assert (runtime.resolve("triton-softmax", "sm_90a", None, build, ptx).path is not None) is applied

    counts = tmp_path / "counts"
    counts.write_text(json.dumps(runtime.report()) + "\n")
    capsys.readouterr()
    for arm, said in (
        ("tuned", "right: triton-softmax: looked for 2x, applied 1x"),
        ("baseline", "differs: triton-softmax: looked for 2x, applied 1x"),
    ):
        main([*acf, "verify-binary", "--triton-cache", str(tmp_path / arm / "cache"), "--counts", str(counts)])
        assert said in capsys.readouterr().out


def test_an_empty_cache_cannot_be_told(tmp_path, store, capsys):
    (tmp_path / "cache").mkdir()
    assert main(["verify-binary", "--triton-cache", "cache"]) == 2
    assert "holds no cubin" in capsys.readouterr().out


def test_the_worked_launch_passes_what_was_proven_and_nothing_where_it_is_refused(store, tmp_path, monkeypatch):
    """The page's own launch, on a stand-in for Triton and torch."""
    page = (REPOSITORY / "docs" / "how-to" / "runtime.md").read_text(encoding="utf-8")
    launch = next(
        block
        for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        if "# launch.py" in block
    )
    store.write(
        "softmax",
        artifact(code={"softmax": CodePair(baseline=CodeTable(sha256="e" * 64), tuned=CodeTable(sha256="f" * 64))}),
        controls=[BLOB], samples=(),
    )  # fmt: skip
    assert main(["export", "--runtime", "out"]) == 0
    tool = tmp_path / "ptxas"
    tool.write_text(f"#!/bin/sh\necho Build {BUILD}\n")
    tool.chmod(0o755)
    torch = MagicMock()
    torch.cuda.get_device_name.return_value = "NVIDIA H200"
    torch.cuda.get_device_capability.return_value = (9, 0)
    kernels = SimpleNamespace(softmax=MagicMock())
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "kernels", kernels)
    monkeypatch.setitem(sys.modules, "acf_runtime", load(tmp_path / "out"))
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", str(tool))
    x = MagicMock(shape=(128, 1920))
    x.stride.return_value = 1920

    def launched():
        scope: dict = {}
        exec(compile(launch, "launch.py", "exec"), scope)
        scope["softmax_of"](x)
        return kernels.softmax.__getitem__.return_value.call_args.kwargs

    path = tmp_path / "out/acfs" / f"{acf_sha()}.acf"
    assert launched() == {
        "BLOCK": 2048, "num_warps": 8, "ptx_options": f"--apply-controls={path} --maxrregcount=64",
    }  # fmt: skip
    monkeypatch.setenv("ACF_DISABLE", "all")
    assert launched() == {"BLOCK": 2048, "num_warps": 4}
