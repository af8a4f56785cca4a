"""Parameters in production: what an export gives a program, what it holds back, and what has no answer."""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from importlib.metadata import version

import pytest

from pytest_compileiq.artifact import CompilerTable, Controls, FingerprintTable
from pytest_compileiq.claim import Claim
from pytest_compileiq.cli.main import main
from pytest_compileiq.model import digest_of_command, sha256_hex
from pytest_compileiq.store.metadata import controls_file_name
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.deployment import Deployment
from tests.unit.artifacts import make_artifact

TARGET = f"{platform.machine().replace('_', '-')}-params"
DATA = b"exact=true\nthreads=8\n"
KNOBS = {"threads": 8, "exact": True}
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
BUILD = f"numpy {version('numpy')}, python {PYTHON}"


def store_params(
    root, data: bytes = DATA, build: str = BUILD, defaults=("rate=0.1", "threads=4"), knobs=KNOBS
) -> Store:
    store = Store(root / "acf")
    compiler = CompilerTable(name="params", version="", build=build, command=("params", *defaults))
    artifact = make_artifact(
        target=TARGET,
        controls=Controls(
            kind="options", file=controls_file_name(TARGET, data), sha256=sha256_hex(data), size_bytes=len(data),
            knobs=knobs,
        ),
        compiler=compiler,
        fingerprint=FingerprintTable(benchmark="a" * 64, command=digest_of_command(compiler.command), sources={}),
        claims=(Claim(device="cpu", workload="w", objective="score", direction="maximize", kind="exact", baseline_value=-0.5, tuned_value=0.75),),
    )  # fmt: skip
    store.write("blur", artifact, controls=[data], samples=())
    return store


def test_a_parameter_with_the_name_of_triton_s_whole_config_is_a_value_of_its_own():
    assert Deployment().params({"config": "fast"}) == {"config": "fast"}
    whole = Deployment(at_launch=True).params({"config": "BLOCK=128, num_warps=4"})
    assert whole == {"BLOCK": 128, "num_warps": 4}


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """Export a store of parameters and load the module."""
    monkeypatch.chdir(tmp_path)

    def export(**changes):
        store_params(tmp_path, **changes)
        assert main(["export", "--runtime", "deploy"]) == 0
        spec = importlib.util.spec_from_file_location("acf_runtime_of_params", tmp_path / "deploy" / "acf_runtime.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return export


def test_a_program_reads_the_defaults_with_the_knobs_over_them(exported, monkeypatch):
    runtime = exported()
    assert runtime.params("blur") == {"exact": True, "rate": 0.1, "threads": 8}
    assert runtime.params("blur", "cpu") and not runtime.params("blur", "another cpu")
    assert runtime.params("unknown") == {}
    monkeypatch.setenv("ACF_DISABLE", "blur")
    assert runtime.params("blur") == {}


@pytest.mark.parametrize("build", ["numpy 0.1", "numpy 0.1, python 2.7", "not-installed 1.0", "python 2.7"])
def test_another_version_of_a_package_holds_them_back_and_says_which(exported, build):
    runtime = exported(build=build)
    answer = runtime.resolve("blur", TARGET.removesuffix("-params"))
    assert answer.params == {} and f"proven with {build.partition(',')[0]}, not with" in answer.reason


def test_no_option_comes_of_an_artifact_that_says_it_has_no_compiler(exported, tmp_path, capsys):
    answer = exported().resolve("blur", TARGET.removesuffix("-params"))
    assert answer.options == () and answer.path.endswith(f"{sha256_hex(DATA)}.acf")
    store_params(tmp_path, data=b"-fplugin=x\n", knobs={"-fplugin=": "x"})
    assert main(["export", "--runtime", "deploy"]) != 0
    assert "'-fplugin='" in capsys.readouterr().err


def test_defaults_that_nobody_proved_are_refused_by_every_verb(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    store_params(tmp_path)
    metadata = tmp_path / "acf" / "blur" / f"{TARGET}.toml"
    metadata.write_text(metadata.read_text().replace("threads=4", "threads=4096"))
    for verb in (["check"], ["show", "blur"], ["export", "--runtime", "deploy"]):
        assert main(verb) != 0
        told = capsys.readouterr()
        assert "compiler.command holds other defaults than fingerprint.command" in told.out + told.err


def test_acf_flags_says_that_a_program_reads_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    store_params(tmp_path)
    assert main(["flags", "blur", "--compiler", "gcc"]) == 2
    assert "blur is given to no compiler: its program reads it, from acf export" in capsys.readouterr().err


def test_the_metadata_is_shown_as_json_and_in_words_without_a_compiler(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    store_params(tmp_path)
    assert main(["show", "blur", "--format", "json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["artifacts"]
    assert shown["controls"]["knobs"] == {"exact": True, "threads": 8}
    assert (shown["claims"][0]["baseline_value"], shown["claims"][0]["tuned_value"]) == (-0.5, 0.75)
    assert main(["show", "blur"]) == 0
    told = capsys.readouterr().out
    assert f"packages   {BUILD}\n" in told and "defaults   rate=0.1, threads=4\n" in told
    assert "claim      exact on w: score -0.5 → 0.75\n" in told
    assert "compiler" not in told and "code " not in told


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": b"exact=true\nthreads=16\n"}, "differs from its recorded knobs"),
        ({"data": b"-fplugin=x\n"}, "differs from its recorded knobs"),
        ({"data": b"-fplugin=x\n", "knobs": {"-fplugin=": "x"}}, "'-fplugin='"),
    ],
)
def test_acf_check_holds_the_file_to_the_recorded_knobs(tmp_path, monkeypatch, capsys, changes, said):
    monkeypatch.chdir(tmp_path)
    store_params(tmp_path, **changes)
    assert main(["check"]) == 1
    assert said in capsys.readouterr().out


def test_defaults_that_no_tuning_wrote_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    store_params(tmp_path, defaults=("rate=[1]",))
    assert main(["export", "--runtime", "deploy"]) != 0
    assert "'rate=[1]' is no parameter" in capsys.readouterr().err
