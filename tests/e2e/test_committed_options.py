"""Committed options are the tool's own or the maintainers' word: pytest, flags, export and check hold the same line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_compileiq.artifact import Artifact, Controls
from pytest_compileiq.cli.main import main
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.store.metadata import controls_file_name
from pytest_compileiq.store.store import Store
from tests import needs
from tests.projects import Project, make_project, naming

KERNEL_C = "int kernel(const int *x, int n) { int sum = 0; while (n--) sum += x[n]; return sum; }\n"
# The space declares every option, as an attacker's own test would: what is committed is refused all the same.
TEST_PY = """\
import pytest

from pytest_compileiq import Cc, choice, literal, minimize


@pytest.mark.tune(
    Cc("kernel.c", flags="-O3"), space={{"-O": choice(["s"], 0.5), {space}}}, objectives=[minimize("code_bytes")]
)
def test_kernel(acf):
    acf.build()
"""
# Each is accepted by gcc or clang, and changes more than how fast a kernel runs.
FOREIGN = {
    "-fno-stack-protector": "",
    "-fcf-protection=": "none",
    "-fcall-used-rbx": "",
    "-fleading-underscore": "",
    "-fsplit-stack": "",
    "-mno-sse2": "",
    "-fno-integrated-as": "",
    "-fproc-stat-report=": "FILE",
    "-fbasic-block-sections=": "list=FILE",
    "-mharden-sls=": "none",
    "-mms-bitfields": "",
}
NEVER = ("-fno-integrated-as", "-fproc-stat-report=", "-fbasic-block-sections=")


Faces = Callable[[Project], dict[str, tuple[int, str]]]


@pytest.fixture
def acf(capsys, monkeypatch) -> Callable[..., tuple[int, str]]:
    """Run ``acf`` in a project; its exit code, and what it printed."""

    def run(made: Project, *arguments: str) -> tuple[int, str]:
        monkeypatch.chdir(made.root)
        code = main(arguments)
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


@pytest.fixture
def shipped(acf) -> Faces:
    """What each verb that does not see the test says of the store."""
    return lambda made: {
        "flags": acf(made, "flags", "kernel", "--compiler", "gcc"),
        "export": acf(made, "export", "--runtime", "shipped"),
        "check": acf(made, "check"),
    }


@pytest.fixture
def faces(shipped) -> Faces:
    """What pytest says, too."""
    return lambda made: {"pytest": (1, made.pytest("-p", "no:cacheprovider", code=1)), **shipped(made)}


def commit(root: Path, knobs: dict[str, int | str], **changes: object) -> None:
    """Put ``knobs`` in the place of the committed ones, as an attacker would: every digest matches."""
    store = Store(root / "acf")
    (target,) = store.targets("kernel")
    artifact = store.read("kernel", target)
    data = "".join(sorted(f"{name}{value}\n" for name, value in knobs.items())).encode()
    name = controls_file_name(target, data)
    controls = Controls(kind="options", file=name, sha256=sha256_hex(data), size_bytes=len(data), knobs=knobs)
    told = {"classes": (), "reduction": None, "attribution": None}  # what it says of other controls
    changed = Artifact.model_validate(artifact.model_copy(update={"controls": controls, **told, **changes}))
    store.write("kernel", changed, controls=[data], samples=())


@pytest.fixture(scope="module")
def _sized(tmp_path_factory) -> Project:
    made = make_project(
        tmp_path_factory.mktemp("sized") / "project",
        {"kernel.c": KERNEL_C, "test_kernel.py": TEST_PY.format(space='"-funroll-loops": literal("", 0.5)')},
    )
    made.pytest("--tune", "--tune-engine=grid", code=0)
    assert 'outcome = "tuned"' in made.one("acf/kernel/*.toml").read_text()
    return made


@pytest.fixture
def sized(_sized, tmp_path) -> Project:
    """A copy of a project with a healthy artifact: -Os."""
    shutil.copytree(_sized.root, tmp_path / "project")
    return Project(tmp_path / "project")


def test_an_option_that_the_compiler_does_not_take_is_told_in_its_words_before_anything_is_built(project):
    files = {"kernel.c": KERNEL_C, "test_kernel.py": TEST_PY.format(space='"-funrol-loops": literal("", 0.5)')}
    output = project(files | naming("-funrol-loops")).pytest("--tune", code=1)
    said = re.search(r"space: gcc .* does not take '-funrol-loops': .* did you mean .-funroll-loops.\?", output)
    assert said, output


def test_an_option_that_the_baseline_says_is_no_control_and_nobody_is_asked_for_it(project, acf):
    space = '"-fno-unroll-loops": choice([""]), "-fno-stack-protector": choice([""]), "-fgcse": literal("", 0.5)'
    test = TEST_PY.format(space=space).replace("-O3", "-O2").replace('choice(["s"], 0.5)', 'choice([2, "s"])')
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": test})
    made.pytest("--tune", "--tune-engine=grid", code=0)
    assert made.one("acf/kernel/*.acf").read_text() == "-Os\n"
    made.pytest(code=0)
    assert acf(made, "flags", "kernel", "--compiler", "gcc")[0] == 0


def declare(made: Project, name: str, value: str) -> None:
    made.edit("test_kernel.py", '"-funroll-loops": literal("", 0.5)', f"{name!r}: literal({value!r}, 0.5)")


@pytest.mark.parametrize("name", FOREIGN)
def test_an_option_that_the_tool_does_not_know_is_refused_everywhere(sized, faces, name):
    option = f"{name}{FOREIGN[name]}"
    commit(sized.root, {"-O": "s", name: FOREIGN[name]})
    declare(sized, name, FOREIGN[name])
    before = set(sized.root.rglob("*"))
    for face, (code, output) in faces(sized).items():
        assert code != 0, f"{face}: {output}"
        if name in NEVER:
            assert f"'{option}' is no option of gcc that may ever stand in a controls file" in output, face
        else:
            assert f"'{option}' is none of the options of gcc that this tool knows" in output, face
            assert "in [pytest] of pytest.ini: acf_options = -" in output, face
    made = {path for path in set(sized.root.rglob("*")) - before if "__pycache__" not in str(path)}
    assert not made, "an option wrote files, or something was shipped"


def test_what_the_maintainers_name_passes_everywhere_and_nothing_else_does(sized, faces, shipped):
    commit(sized.root, {"-O": "s", "-ftree-parallelize-loops=": 1})
    sized.edit(
        "test_kernel.py", '"-funroll-loops": literal("", 0.5)', '"-ftree-parallelize-loops=": choice([1, 2], 0.5)'
    )
    lines = {line.strip() for _, output in faces(sized).values() for line in re.findall("acf_options = .*", output)}
    assert lines == {"acf_options = -ftree-parallelize-loops="}
    sized.edit("pytest.ini", "[pytest]\n", f"[pytest]\n{lines.pop()}\n")
    sized.pytest(code=0)
    assert [code for code, _ in shipped(sized).values()] == [0, 0, 0]
    commit(sized.root, {"-O": "s", "-ftree-parallelize-loops=": "list=FILE"})
    assert [code for code, _ in shipped(sized).values()] == [2, 2, 1]


def test_what_does_more_than_choose_code_is_refused_though_it_is_named(sized, faces):
    for option in ("-fplugin=evil", "-fproc-stat-report=FILE", "-fno-integrated-as", "-march=native"):
        named = f"{option} {option.partition('=')[0]}="
        (sized.root / "pytest.ini").write_text(f"[pytest]\nacf_options = {named}\n")
        commit(sized.root, {"-O": "s", option: ""})
        (sized.root / "test_kernel.py").write_text(TEST_PY.format(space=f"{option!r}: literal('', 0.5)"))
        for face, (code, output) in faces(sized).items():
            assert code != 0 and f"'{option}' is no option of gcc that may ever" in output, f"{face}: {output}"


def test_a_search_in_a_space_that_could_not_ship_does_not_begin(sized):
    shutil.rmtree(sized.root / ".compileiq")
    declare(sized, "-fno-tree-ter", "")
    output = sized.pytest("--tune", code=1)
    assert "'-fno-tree-ter' is none of the options of gcc that this tool knows" in output
    assert "in [pytest] of pytest.ini: acf_options = -fno-tree-ter" in output
    assert not (sized.root / ".compileiq").exists()


def test_a_knob_whose_name_is_the_beginning_of_an_option_names_that_option_alone(sized, acf):
    commit(sized.root, {"-O": "s", "-f": "no-stack-protector"})
    _, output = acf(sized, "check")
    assert output.splitlines()[0].endswith("acf_options = -fno-stack-protector")


SETTINGS = {
    "pytest.ini": ("[pytest]\nacf_options = {} {}\n", "[pytest] of pytest.ini"),
    "tox.ini": ("[pytest]\nacf_options =\n  # why they are wanted\n  {}\n  {}\n", "[pytest] of tox.ini"),
    "setup.cfg": ("[tool:pytest]\nacf_options = {} {}\n", "[tool:pytest] of setup.cfg"),
    "pyproject.toml": (
        '[tool.pytest.ini_options]\nacf_options = ["{}", "{}"]\n', "[tool.pytest.ini_options] of pyproject.toml",
    ),
    "pytest.toml": ('[pytest]\nacf_options = ["{}", "{}"]\n', "[pytest] of pytest.toml"),
}  # fmt: skip


@pytest.mark.parametrize("file", SETTINGS)
def test_the_settings_are_read_from_the_file_that_pytest_reads(sized, faces, shipped, file):
    if file == "pytest.toml" and pytest.version_tuple < (9,):
        pytest.skip("this pytest knows no pytest.toml")
    template, where = SETTINGS[file]
    commit(sized.root, {"-O": "s", "-fno-ident": ""})
    declare(sized, "-fno-ident", "")
    (sized.root / "pytest.ini").unlink()
    (sized.root / file).write_text(template.format("-fno-ivopts", "-fno-ident"))
    sized.pytest(code=0)
    assert [code for code, _ in shipped(sized).values()] == [0, 0, 0]
    (sized.root / file).write_text(template.format("-fno-ivopts", "-fno-dse"))
    entries = ("-fno-ivopts", "-fno-dse", "-fno-ident")
    line = f"acf_options = {json.dumps(entries) if file.endswith('toml') else ' '.join(entries)}"
    for face, (code, output) in faces(sized).items():
        assert code != 0 and f"in {where}: {line}" in output, f"{face}: {output}"


def test_a_file_that_pytest_passes_over_lets_nothing_in(sized, faces):
    """An empty pytest.ini is pytest's settings, whatever pyproject.toml says."""
    commit(sized.root, {"-O": "s", "-fno-ident": ""})
    declare(sized, "-fno-ident", "")
    (sized.root / "pyproject.toml").write_text('[tool.pytest.ini_options]\nacf_options = ["-fno-ident"]\n')
    for face, (code, output) in faces(sized).items():
        assert code != 0 and "in [pytest] of pytest.ini: acf_options = -fno-ident" in output, f"{face}: {output}"


def test_what_is_no_option_cannot_be_named(sized, shipped):
    for entry in ("/etc/passwd", "fno-ident", "-f|sh", "@file", "-Wl,/x"):
        (sized.root / "pytest.ini").write_text(f"[pytest]\nacf_options = '{entry}'\n")
        assert f"acf_options: '{entry}' is neither an option" in sized.pytest(code=4)
        for code, output in shipped(sized).values():
            assert code == 2 and f"acf_options: '{entry}' is neither an option" in output


def test_another_store_is_held_to_the_settings_of_its_own_project(sized, acf, tmp_path):
    commit(sized.root, {"-O": "s", "-fno-ident": ""})
    elsewhere = Project(tmp_path / "elsewhere")
    elsewhere.root.mkdir()
    (elsewhere.root / "pytest.ini").write_text("[pytest]\nacf_options = -fno-ident\n")
    code, output = acf(elsewhere, "--acf-dir", str(sized.root / "acf"), "check")
    assert code == 1 and "acf_options = -fno-ident" in output


@pytest.mark.slow
@needs.nvcc
def test_options_of_ptxas_beyond_its_space_take_the_maintainers_word(project):
    test = TEST_PY.replace("Cc", "Nvcc").replace('"kernel.c", flags="-O3"', '"kernel.cu", arch="sm_90a"')
    test = test.replace('"-O": choice(["s"], 0.5), ', "").format(space='"-Xptxas=--return-at-end": literal("", 0.5)')
    made = project({"kernel.cu": "__global__ void kernel(float *x) { x[threadIdx.x] *= 2; }\n", "test_kernel.py": test})
    output = made.pytest("--tune", "--tune-budget=2", code=1)
    assert "in [pytest] of pytest.ini: acf_options = -Xptxas=--return-at-end" in output
    made.edit("pytest.ini", "[pytest]\n", "[pytest]\nacf_options = -Xptxas=--return-at-end\n")
    assert "BASELINE" in made.pytest("--tune", "--tune-budget=2", code=0)


COMMAND_PY = """\
import pytest

from pytest_compileiq import Command, choice, minimize


@pytest.mark.tune(
    Command(
        ["gcc -O3 -fPIC {options} -c {source} -o {out_dir}/kernel.o", "gcc -shared {out_dir}/kernel.o -o {out}"],
        sources=["kernel.c"],
    ),
    space={"-O": choice(["s"]), "-DSTEP=": choice([1, 2])},
    objectives=[minimize("code_bytes")],
)
def test_kernel(acf):
    acf.build()
"""


def test_a_command_s_own_options_are_its_test_s_to_vouch_for_and_go_to_no_build(project, acf):
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": COMMAND_PY})
    assert "TUNED" in made.pytest("--tune", "--tune-engine=grid", code=0)
    made.pytest(code=0)
    assert acf(made, "check")[0] == 0
    code, output = acf(made, "flags", "kernel", "--compiler", "gcc")
    assert code == 2 and "is made by gcc: its knobs are in acf show kernel, for its own command line" in output
