"""The examples of ``docs/how-to`` compile, name what exists, and tell each framework what it is to be told.

Frameworks that are not installed are stand-ins that only note what they were told. Triton, nvcc and ptxas are the real
ones where they are installed.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock, patch

import pytest

from pytest_compileiq.benchmark.compared import Outputs
from pytest_compileiq.benchmark.fixture import Acf, cached_controls
from pytest_compileiq.benchmark.marker import read_marker
from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.frameworks import inductor_environment, torch_extension_flags, triton_options
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.model import ControlsFile, Workload
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs

PAGES = sorted((Path(__file__).parents[2] / "docs" / "how-to").glob("*.md"))
FRAMEWORKS = next(page for page in PAGES if page.name == "frameworks.md").read_text(encoding="utf-8")
STAND_INS = (
    "torch", "torch.utils", "torch.utils.cpp_extension", "triton", "triton.language", "helion", "helion.language",
    "cutlass", "cutlass.cute", "cutlass.cute.runtime", "flashinfer", "scale",
)  # fmt: skip
BLOB = b"controls of one candidate"
REFUSED = re.compile(r"Invalid compiler controls file|not in expected format")  # ptxas opened it: it is no real ACF


@pytest.fixture(autouse=True)
def _environment_restored():
    """Examples set variables, and would leave them to other tests' compilers."""
    with patch.dict(os.environ):
        yield


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


EXAMPLES = [
    pytest.param(page, example, id=f"{page.stem}-{number}-{example.partition(chr(10))[0].strip('# ')}")
    for page in PAGES
    for number, example in enumerate(blocks(page.read_text(encoding="utf-8"), "python"), start=1)
]


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_an_example_compiles_and_names_what_this_package_has(page, example):
    compile(example, page.name, "exec", dont_inherit=True)
    for node in ast.walk(ast.parse(example)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pytest_compileiq":
            home = importlib.import_module(node.module)
            missing = [one.name for one in node.names if not hasattr(home, one.name)]
            assert not missing, f"{page.name}: {node.module} has no {missing[0]}"


def test_every_recipe_says_what_was_read_and_whether_it_was_run():
    sections = [
        section for section in re.split(r"^##+ ", FRAMEWORKS, flags=re.MULTILINE) if "@pytest.mark.tune" in section
    ]
    titles = [section.partition("\n")[0] for section in sections]
    assert titles == [
        "Triton's JIT",
        "Helion",
        "The CuTe DSL",
        "FlashInfer",
        "torch.compile",
        "CUDA C++ in torch extensions",
    ]
    for title, section in zip(titles, sections, strict=True):
        *_, read, run = section.strip().splitlines()
        assert "\nCache trap: " in section and read.startswith("Read from: ") and run.startswith("Run here: "), title


# ── recipes on stand-ins ─────────────────────────────────────────────────────────────────────────────────────────


class Page:
    """The page's files in a directory, imported as a test file would import them, and the two arms to run."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.stubs: dict[str, MagicMock] = {}
        for language in ("python", "cuda"):
            for example in blocks(FRAMEWORKS, language):
                name = example.partition("\n")[0].strip("#/ ")
                with (home / name).open("a", encoding="utf-8") as file:
                    file.write(example)
        for name in STAND_INS:
            root, *rest = name.split(".")
            self.stubs.setdefault(root, MagicMock(name=root))
            monkeypatch.setitem(sys.modules, name, functools.reduce(getattr, rest, self.stubs[root]))
        self.stubs["torch"].testing = MagicMock(unsafe=True)  # its assert_close is no misspelt assertion of a mock
        self.stubs["torch"].cuda.Event.return_value.elapsed_time.return_value = 50.0
        monkeypatch.syspath_prepend(str(home))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(self, name: str) -> ModuleType:
        """Import one of the page's files."""
        spec = importlib.util.spec_from_file_location(name, self.home / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def run(self, name: str, controls: ControlsFile | None, **fixtures: object) -> Acf:
        """Check the marker of ``test_NAME`` and run its body as one arm."""
        function = getattr(self.load(f"test_{name}"), f"test_{name}")
        (mark,) = function.pytestmark
        spec = read_marker(mark, function.__name__)
        word = "-Xptxas=--apply-controls={}" if type(spec.toolchain).__name__ == "Nvcc" else "--apply-controls={}"
        builder = SimpleNamespace(options=lambda controls, path: (word.format(path),))
        acf = Acf(
            SimpleNamespace(builder=builder), controls, Workload("default"),
            arm="tuned" if controls else "baseline", measurer=lambda _, call: call(), outputs=Outputs(),
        )  # fmt: skip
        function(acf=acf, **fixtures)
        return acf


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "page").mkdir()
    made = Page(tmp_path / "page", monkeypatch)
    yield made
    for file in made.home.glob("*.py"):
        sys.modules.pop(file.stem, None)


@pytest.fixture
def candidate():
    return ControlsFile("blob", BLOB, {})


def test_triton_launches_with_the_controls_and_without(page, candidate):
    launch = page.stubs["triton"].jit.return_value.__getitem__.return_value
    page.run("add_one", candidate)
    assert launch.call_args.kwargs == {"BLOCK": 128, "ptx_options": f"--apply-controls={cached_controls(candidate)}"}
    page.run("add_one", None)
    assert launch.call_args.kwargs == {"BLOCK": 128}


def test_helion_gets_a_pinned_configuration_with_the_controls_and_without(page, candidate):
    config = page.stubs["helion"].Config
    page.run("softmax", candidate)
    page.run("softmax", None)
    tuned, baseline = (call.kwargs for call in config.call_args_list)
    assert tuned == baseline | {"advanced_controls_file": str(cached_controls(candidate))}
    assert page.stubs["helion"].kernel.call_args.kwargs["config"] is config.return_value


def test_cute_compiles_with_the_controls_and_without(page, candidate):
    compile_ = page.stubs["cutlass"].cute.compile
    page.run("scale", candidate)
    page.run("scale", None)
    told = [call.kwargs["options"] for call in compile_.call_args_list]
    assert told == [f"--ptxas-options '--apply-controls={cached_controls(candidate)}'", ""]


def test_a_torch_extension_is_another_library_in_each_arm(page, candidate):
    load = page.stubs["torch"].utils.cpp_extension.load_inline
    page.run("halve", candidate)
    page.run("halve", None)
    tuned, baseline = (call.kwargs for call in load.call_args_list)
    path = cached_controls(candidate)
    assert tuned["extra_cuda_cflags"] == ["-O3", f"-Xptxas=--apply-controls={path}"]
    assert baseline["extra_cuda_cflags"] == ["-O3"]
    assert (tuned["name"], baseline["name"]) == (f"halve_{path.stem}", "halve_baseline")
    assert tuned["name"].isidentifier() and "halve_kernel<<<" in tuned["cuda_sources"]


CHILD = """\
import os, sys
for _ in sys.stdin:
    print(len(os.environ.get({variable!r}, "").split("--apply-controls=")), flush=True)
"""


@needs.ptxas  # the page's conftest.py takes it from the cuda extra
@pytest.mark.parametrize(
    ("name", "variable"),
    [("decode", "FLASHINFER_EXTRA_CUDAFLAGS"), ("fused", "PTXAS_OPTIONS")],
    ids=["flashinfer", "torch.compile"],
)
def test_a_child_of_each_arm_is_told_by_its_environment(page, candidate, monkeypatch, name, variable):
    monkeypatch.delenv(variable, raising=False)
    (page.home / f"{name}.py").write_text(CHILD.format(variable=variable))
    children = page.load("conftest").Children()
    try:
        arms = [None, candidate, None, candidate]
        assert [page.run(name, arm, children=children).recorded["runtime"] for arm in arms] == [1, 2, 1, 2]
        assert len(children.alive) == 2
        first, last = children.alive.values()
        page.run(name, ControlsFile("blob", b"another candidate", {}), children=children)
        assert next(iter(children.alive.values())) is last and first.returncode is not None
    finally:
        for child in children.alive.values():
            children.end(child)


@needs.ptxas
def test_a_child_that_ends_fails_the_arm_and_says_so(page):
    children = page.load("conftest").Children()
    (page.home / "decode.py").write_text("raise SystemExit(3)")
    with pytest.raises(AssertionError, match="exit code 3"):
        children.ask(str(page.home / "decode.py"), dict(os.environ))
    for child in children.alive.values():
        children.end(child)


@pytest.mark.parametrize("name", ["decode", "fused"])
def test_a_child_answers_with_the_seconds_of_one_call(page, monkeypatch, capsys, name):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))
    page.load(name)
    assert capsys.readouterr().out.split() == ["0.0005", "0.0005"]
    assert page.stubs["torch"].testing.assert_close.called


# ── recipes on the real compilers ────────────────────────────────────────────────────────────────────────────────

COMPILE = """\
import json, sys
from pathlib import Path

import triton
from kernels import add_one
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

source = ASTSource(fn=add_one, signature={"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, constexprs={"BLOCK": 128})
for name, options in json.loads(sys.argv[1]).items():
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    Path(name).write_bytes(compiled.asm["cubin"])
"""


@pytest.fixture
def compile_with_triton(tmp_path):
    """Compile the page's kernel with the page's conftest, in a process of its own: file name → Triton's options."""
    parts = dict.fromkeys(("conftest.py", "kernels.py"), "")
    for example in blocks(FRAMEWORKS, "python"):
        name = example.partition("\n")[0].strip("# ")
        if name in parts and "subprocess" not in example:
            parts[name] += example
    (tmp_path / "kernels.py").write_text(parts["kernels.py"])
    (tmp_path / "compile.py").write_text(parts["conftest.py"] + COMPILE)

    def run(jobs: dict[str, dict[str, str]], **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "PTXAS_", "PYTEST_"))
        }
        return subprocess.run(
            [sys.executable, "compile.py", json.dumps(jobs)], cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env=kept | {"TRITON_CACHE_DIR": str(tmp_path / "triton-cache")} | environment,
        )  # fmt: skip

    return run


@needs.triton
@needs.ptxas
def test_triton_hands_the_options_to_the_ptxas_that_the_page_names(compile_with_triton, tmp_path):
    done = compile_with_triton(
        {"baseline.cubin": triton_options(()), "tuned.cubin": triton_options(("--maxrregcount=64",))}
    )
    assert done.returncode == 0, done.stderr
    baseline, tuned = (read_cubin(tmp_path / f"{arm}.cubin") for arm in ("baseline", "tuned"))
    assert "-maxrregcount 64" in tuned.command and "-maxrregcount" not in baseline.command
    tool = next(installed("ptxas"))
    assert f"V{tool.version}" in baseline.assembler and f"V{tool.version}" in tuned.assembler


@needs.triton
@needs.ptxas
def test_triton_has_ptxas_open_the_controls(compile_with_triton, candidate, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = compile_with_triton({"tuned.cubin": triton_options((f"--apply-controls={cached_controls(candidate)}",))})
    assert done.returncode != 0 and REFUSED.search(done.stdout + done.stderr), done.stderr


@needs.triton
@needs.ptxas
def test_triton_takes_the_options_of_the_environment_that_inductor_gets(compile_with_triton, tmp_path):
    told = inductor_environment(("--maxrregcount=56",), {}, tmp_path / "caches")
    assert compile_with_triton({"tuned.cubin": {}}, **told).returncode == 0
    assert "-maxrregcount 56" in read_cubin(tmp_path / "tuned.cubin").command
    assert list((tmp_path / "caches").glob("*/triton/*")), "the arm's own cache was not used"


@needs.nvcc
def test_nvcc_hands_the_flags_of_a_torch_extension_to_ptxas(candidate, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (source,) = blocks(FRAMEWORKS, "cuda")
    (tmp_path / "halve.cu").write_text(source)

    def compile_with(*options: str) -> subprocess.CompletedProcess[str]:
        nvcc = next(installed("nvcc")).program
        flags = torch_extension_flags(options)
        argv = [nvcc, "-O3", "-arch=sm_90a", "-cubin", *flags, "halve.cu", "-o", "halve.cubin"]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    done = compile_with("-Xptxas=--maxrregcount=40")
    assert done.returncode == 0, done.stderr
    assert "-maxrregcount 40" in read_cubin(tmp_path / "halve.cubin").command
    refused = compile_with(f"-Xptxas=--apply-controls={cached_controls(candidate)}")
    assert refused.returncode != 0 and REFUSED.search(refused.stdout + refused.stderr), refused.stderr


def test_a_home_with_a_blank_is_refused_before_any_framework_splits_it(page, candidate, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(page.home / "my cache"))
    with pytest.raises(EnvironmentFault, match="set XDG_CACHE_HOME to a plain path"):
        page.run("add_one", candidate)
    page.run("add_one", None)
