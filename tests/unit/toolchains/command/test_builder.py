"""Any compiler from a command template: LLVM's opt and llc, gcc, and shell scripts where a compiler must misbehave."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError, StoreError
from pytest_compileiq.model import Candidate, ControlsFile, KnobValue
from pytest_compileiq.toolchains.base import Place, Toolchain
from pytest_compileiq.toolchains.command.builder import CommandBuilder, resolve
from pytest_compileiq.toolchains.command.marker import Command, read_template
from tests.files import write_files

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
needs_llvm = pytest.mark.skipif(
    not all(map(shutil.which, ("opt", "llc"))), reason="needs opt and llc (Debian: the package llvm)"
)

ROOT = Path(__file__).parents[4]
ENOUGH_S = 60.0

# Without pointers, whose spelling has changed between versions of LLVM.
SQUARES_LL = """\
define i64 @squares(i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %more, %loop ]
  %square = mul i64 %i, %i
  %more = add i64 %sum, %square
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %n
  br i1 %again, label %loop, label %done
done:
  ret i64 %more
}
"""
PIPELINE = Command(
    [
        "opt -passes={pipeline} {options} {source} -o {out_dir}/kernel.bc",
        "llc -O3 -relocation-model=pic -filetype=obj {out_dir}/kernel.bc -o {out_dir}/kernel.o",
        "gcc -shared {out_dir}/kernel.o -o {out}",
    ],
    sources=["squares.ll"],
    defaults={"pipeline": "default<O0>"},
)
COMPILE = "gcc -O{level} -fPIC {options} -c {source} -o {out_dir}/kernel.o"
LINK = "gcc -shared {out_dir}/kernel.o -o {out}"
TWICE_C = '#include "factor.h"\nint twice(int x) { return FACTOR * x; }\n'


def gcc(*steps: str, **arguments: Any) -> Command:
    """gcc on the one source, at a level that is a knob."""
    return Command(steps or (COMPILE, LINK), **{"sources": "twice.c", "defaults": {"level": 1}, **arguments})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "checkout")


def make_project(root: Path) -> Path:
    files = {"twice.c": TWICE_C, "factor.h": "#define FACTOR 2\n", "squares.ll": SQUARES_LL}
    return write_files(root, {f"kernels/{name}": text for name, text in files.items()})


def builder(root: Path, command: Command) -> CommandBuilder:
    return resolve(command, Place(root / "kernels", root))


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo 'tool 3.1' && exit 0\n{body}\n")
    path.chmod(0o755)
    return path


# ── what a marker holds ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_toolchain_is_a_value() -> None:
    one, other = gcc(defaults={"level": 1}), gcc(defaults={"level": 2})
    assert one == gcc() and one != other
    assert hash(one) == hash(gcc())
    assert isinstance(one, Toolchain)
    assert Command("cc {source} -o {out}", sources="a.c") == Command(["cc {source} -o {out}"], sources=["a.c"])


def test_naming_a_toolchain_in_a_test_file_imports_nothing_heavy() -> None:
    code = (
        "import sys; from pytest_compileiq.toolchains.command.marker import Command; Command('cc {source}', sources='a.c');"
        "print([m for m in ('numpy', 'scipy', 'pydantic', 'elftools') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (Command([], sources="twice.c"), "steps=.*a list of texts"),
        (Command(7, sources="twice.c"), "steps=7.*a list of texts"),  # type: ignore[arg-type]
        (Command("gcc {source} -o {out}", sources=[]), "sources=.*a list of texts"),
        (Command("gcc {source} -o {out}", sources="absent.c"), r"sources='absent\.c'.*kernels/absent\.c"),
        (gcc(depends="absent.h"), r"depends='absent\.h'"),
        (gcc(defaults=7), "defaults=7.*expected a dict"),
        (gcc(defaults=[("level", 1), ("level", 2)]), "defaults=.*expected a dict"),
        (gcc(defaults={}), r"\{level\} has no value in the baseline: give defaults=\{'level'"),
        (gcc(defaults={"level": 1, "levle": 1}), r"no step has \{levle\}"),
        (gcc(defaults={"level": 1, "out": "x"}), r"\{out\}.*the plugin's own places"),
        (gcc(defaults={"level": True}), "'level' = True"),
        (gcc(COMPILE), r"no step makes the output: write \{out\}"),
        (gcc("gcc 'unclosed {out}"), "No closing quotation"),
        (gcc("   ", LINK), "begins with the name of its program"),
        (gcc("{level} {source} -o {out}"), "begins with the name of its program"),
        (gcc("gcc {level} -O={options} {source} -o {out}"), r"\{options\} becomes several words"),
        (gcc(sources=["twice.c", "squares.ll"]), r"there are 2: write \{sources\}"),
        (gcc("gcc -march=native -O{level} {source} -o {out}"), "'-march=native' is another processor"),
        (gcc(output="object"), "'library', 'executable' or 'file'"),
        (gcc(output=["library"]), "'library', 'executable' or 'file'"),
        (gcc(objects="../*.o"), "a pattern of names"),
        (gcc(target="../escape"), "expected an architecture"),
        (gcc(version="'"), "version="),
        (gcc(version=3), "version=3"),
    ],
)
def test_an_unusable_argument_says_what_was_expected(project: Path, command: Command, said: str) -> None:
    with pytest.raises(MarkerError, match=said):
        builder(project, command)


# ── which compiler ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_steps_program_is_the_compiler(project: Path) -> None:
    found = builder(project, gcc())
    line = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    here = platform.machine().replace("_", "-")
    assert (found.compiler.name, found.compiler.build) == ("gcc", line)
    assert found.compiler.version in line
    assert found.target == f"{here}-gcc{found.compiler.version.partition('.')[0]}"
    assert (found.architecture, found.native, found.clock, found.acf_line) == (here, None, "cpu", None)
    assert found.default_space() is None and found.option_space() is None


def test_version_names_another_compiler_than_the_first_steps(project: Path) -> None:
    script(project / "kernels" / "my-cc++-3.1", "exit 1")
    found = builder(project, gcc(version="./my-cc++-3.1 --version", target="x86-64-v3"))
    assert (found.compiler.name, found.compiler.version, found.compiler.build) == ("my-cc++", "3.1", "tool 3.1")
    assert found.target.rpartition("-") == ("x86-64-v3", "-", "my_cc__3")


def test_the_recorded_command_is_the_baselines_without_the_places_of_one_build(project: Path) -> None:
    assert " ".join(builder(project, gcc()).compiler.command) == (
        "gcc -O1 -fPIC {options} -c kernels/twice.c -o {out_dir}/kernel.o && gcc -shared {out_dir}/kernel.o -o {out}"
    )


def test_a_pipeline_too_long_for_the_metadata_is_recorded_by_its_digest(project: Path) -> None:
    commands = [
        builder(project, gcc(f"gcc -DP={{p}} {LINK[4:]}", defaults={"p": "x" * 3000 + end})).compiler.command
        for end in ("a", "b")
    ]
    assert commands[0] != commands[1]
    assert max(map(len, commands[0])) < 2000


def test_a_kernel_for_another_machine_says_why_it_cannot_run(project: Path) -> None:
    assert "compiled for sm_90" in str(builder(project, gcc(target="sm_90")).native)
    here = platform.machine().replace("_", "-")
    assert builder(project, gcc(target=f"{here}-special")).native is None


def test_a_missing_program_says_what_was_looked_for_before_anything_runs(project: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"'llc-99' on PATH .*install it"):
        builder(project, gcc(COMPILE, "llc-99 -o {out}"))
    with pytest.raises(EnvironmentFault, match=r"kernels/tools/cc"):
        builder(project, gcc("tools/cc -O{level} {source} -o {out}"))


def test_a_program_that_says_no_version_is_refused_with_the_way_out(project: Path) -> None:
    (project / "kernels" / "quiet").write_text("#!/bin/sh\necho hello\n")
    (project / "kernels" / "quiet").chmod(0o755)
    with pytest.raises(EnvironmentFault, match=r"does not say a version: it says 'hello'; give Command\(version="):
        builder(project, gcc("./quiet -O{level} {source} -o {out}"))


# ── what it reads ────────────────────────────────────────────────────────────────────────────────────────────────


def test_sources_are_what_the_marker_lists_relative_to_rootdir(project: Path) -> None:
    found = builder(project, gcc(depends="factor.h"))
    before = found.sources()
    assert list(before) == ["kernels/factor.h", "kernels/twice.c"]
    (project / "kernels" / "factor.h").write_text("#define FACTOR 3\n")
    assert found.sources() != before
    (project / "kernels" / "factor.h").unlink()
    with pytest.raises(BuildError, match=r"factor\.h: cannot be read"):
        found.sources()


# ── what it makes ────────────────────────────────────────────────────────────────────────────────────────────────


@needs_llvm
def test_a_pass_pipeline_is_tuned_to_other_machine_code_and_the_same_results(project: Path, tmp_path: Path) -> None:
    found = builder(project, PIPELINE)
    assert found.compiler.name == "opt" and "-opt" in found.target
    controls = found.render(Candidate({"pipeline": "default<O2>", "-unroll-threshold=": 500}))
    arms = [
        found.build(which, tmp_path / name, timeout_s=ENOUGH_S)
        for which, name in ((None, "baseline"), (controls, "tuned"), (controls, "again"))
    ]
    assert [list(arm.code) for arm in arms] == [["squares"]] * 3
    assert arms[0].digest != arms[1].digest == arms[2].digest
    assert all(arm.metrics["code_bytes"] == arm.code["squares"].metrics["code_bytes"] > 0 for arm in arms)
    used: set[str] = set()
    for arm in arms:
        function = found.load(arm, used).squares
        function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_int64]
        assert function(100) == sum(i * i for i in range(100))
    assert used == {"squares"}


@needs_llvm
@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"pipeline": "default<O9>"}, r"^opt refuses step 1: .*unknown pass name 'default<O9>'"),
        ({"-no-such-option": ""}, r"^opt refuses step 1: .*nknown command line argument '-no-such-option'"),
    ],
)
def test_a_pipeline_that_opt_refuses_is_quoted(
    project: Path, tmp_path: Path, knobs: dict[str, KnobValue], said: str
) -> None:
    found = builder(project, PIPELINE)
    with pytest.raises(BuildError, match=said) as caught:
        found.build(found.render(Candidate(knobs)), tmp_path / "out", timeout_s=ENOUGH_S)
    assert caught.value.kind == "compile"


def test_no_controls_an_empty_candidate_and_the_baselines_own_value_are_one(project: Path, tmp_path: Path) -> None:
    found = builder(project, gcc())
    every = (None, found.render(Candidate({})), found.render(Candidate({"level": 1})))
    built = [found.build(one, tmp_path / str(number), timeout_s=ENOUGH_S) for number, one in enumerate(every)]
    assert built[0].code == built[1].code == built[2].code
    changed = found.build(found.render(Candidate({"level": 0})), tmp_path / "changed", timeout_s=ENOUGH_S)
    assert changed.digest != built[0].digest


def test_two_checkouts_give_the_same_machine_code(tmp_path: Path) -> None:
    roots = [make_project(tmp_path / name) for name in ("here", "a/much/longer/way/there")]
    found = [builder(root, gcc()) for root in roots]
    assert found[0].compiler == found[1].compiler
    built = [each.build(None, root / "out", timeout_s=ENOUGH_S) for each, root in zip(found, roots, strict=True)]
    assert built[0].code == built[1].code


def test_a_program_is_one_entry_and_its_path(project: Path, tmp_path: Path) -> None:
    (project / "kernels" / "twice.c").write_text('#include <stdio.h>\nint main(void) { puts("ran"); return 0; }\n')
    command = gcc(COMPILE, "gcc {out_dir}/kernel.o -o {out}", output="executable")
    found = builder(project, command)
    built = found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert list(built.code) == ["main"]
    used: set[str] = set()
    program = found.load(built, used)
    assert used == {"main"}
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "ran\n"


def test_an_object_is_digested_by_function_and_given_as_a_path(project: Path, tmp_path: Path) -> None:
    found = builder(project, gcc("gcc -O{level} -c {source} -o {out}", output="file"))
    built = found.build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert list(built.code) == ["twice"]
    assert found.load(built, set()) == built.path


def test_what_is_no_machine_code_is_digested_as_bytes(project: Path, tmp_path: Path) -> None:
    script(project / "kernels" / "tool", 'printf "%s" "$1" > "$2"')
    found = builder(project, gcc("./tool {level} {out}", output="file"))
    built = [
        found.build(found.render(Candidate({"level": level})), tmp_path / level, timeout_s=ENOUGH_S)
        for level in ("aa", "ab")
    ]
    assert [list(each.code) for each in built] == [["output"]] * 2
    assert built[0].digest != built[1].digest
    assert built[0].metrics == {"code_bytes": 2}
    used: set[str] = set()
    assert found.load(built[0], used) == built[0].path and used == {"output"}


@pytest.mark.parametrize(
    "steps",
    [
        ("gcc -O{level} -shared -fPIC {sources} -o {out}",),
        ("gcc -O{level} -fPIC -c kernels/twice.c -o {out_dir}/kernel.o", "gcc -shared {out_dir}/kernel.o kernels/more.c -o {out}"),
        ("gcc -O{level} -flto -fno-fat-lto-objects -fPIC -c kernels/twice.c -o {out_dir}/kernel.o", "cp kernels/more.o {out_dir}", "gcc -shared {out_dir}/kernel.o {out_dir}/more.o -o {out}"),
    ],
    ids=["no object", "code from elsewhere", "objects without machine code"],
)  # fmt: skip
def test_a_library_whose_objects_do_not_hold_all_its_code_is_digested_whole(
    project: Path, tmp_path: Path, steps: tuple[str, ...]
) -> None:
    more = project / "kernels" / "more.c"
    digests = []
    for constant in (1, 2):
        more.write_text(f"static int hidden(int x) {{ return x * {constant}; }}\nint (*more)(int) = hidden;\n")
        subprocess.run(["gcc", "-fPIC", "-c", "more.c"], cwd=more.parent, check=True)
        found = builder(project, gcc(*steps, sources=["twice.c", "more.c"]))
        built = found.build(None, tmp_path / str(constant), timeout_s=ENOUGH_S)
        digests.append(built.digest)
        assert list(built.code) == ["output"]
        used: set[str] = set()
        assert found.load(built, used).twice(4) == 8
        assert used == {"output", "twice"}
    assert digests[0] != digests[1]


def test_a_linked_file_is_digested_as_bytes(project: Path, tmp_path: Path) -> None:
    found = builder(project, gcc("gcc -O{level} -shared -fPIC {source} -o {out}", output="file"))
    assert list(found.build(None, tmp_path / "out", timeout_s=ENOUGH_S).code) == ["output"]


def test_a_library_that_exports_nothing_is_refused(project: Path, tmp_path: Path) -> None:
    (project / "kernels" / "twice.c").write_text("static int one(void) { return 1; }\nint two;\n")
    with pytest.raises(BuildError, match=r"kernel\.o: exports no function"):
        builder(project, gcc()).build(None, tmp_path / "out", timeout_s=ENOUGH_S)


# ── how it fails ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_compile_error_is_one_sentence_with_the_compilers_own(project: Path, tmp_path: Path) -> None:
    (project / "kernels" / "twice.c").write_text("#warning unknown things\nint one(void) { return undeclared; }\n")
    with pytest.raises(BuildError, match=r"^gcc refuses step 1: .*error: .*undeclared") as caught:
        builder(project, gcc()).build(None, tmp_path / "out", timeout_s=ENOUGH_S)
    assert caught.value.kind == "compile"
    assert "unknown things" in caught.value.log


@pytest.mark.parametrize(
    ("misbehaviour", "kind", "said"),
    [
        ("sleep 600", "timeout", "tool took longer than 0.5 s, at step 2"),
        ("kill -SEGV $$", "compile", "tool was killed by signal 11 at step 2"),
        ("exit 3", "compile", "tool refuses step 2: it printed nothing"),
        ("exit 0", "compile", "make no {out}"),
    ],
)
def test_a_step_that_misbehaves_is_a_typed_failure(
    project: Path, tmp_path: Path, misbehaviour: str, kind: str, said: str
) -> None:
    script(project / "kernels" / "tool", misbehaviour)
    found = builder(project, gcc("true {level}", "./tool {source} {out}", version="gcc --version"))
    with pytest.raises(BuildError, match=said) as caught:
        found.build(None, tmp_path / "out", timeout_s=0.5 if kind == "timeout" else ENOUGH_S)
    assert caught.value.kind == kind


# ── controls ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_controls_file_is_one_sorted_option_or_value_a_line(project: Path) -> None:
    found = builder(project, PIPELINE)
    controls = found.render(Candidate({"pipeline": "function(sroa),default<O2>", "-a=": 3, "--z": ""}))
    assert controls.kind == "options"
    assert controls.data == b"--z\n-a=3\npipeline=function(sroa),default<O2>\n"
    assert found.options(controls, Path("unused")) == ("--z", "-a=3")
    assert found.parse("options", controls.data, controls.knobs) == controls


REFUSED: list[tuple[str, KnobValue, str]] = [
    ("pipline", "default<O2>", r"no place in Command's steps \(did you mean 'pipeline'\?\): write \{pipline\}"),
    ("options", "x", r"no place in Command's steps"),
    ("out", "x", r"no place in Command's steps"),
    ("pipeline", True, "expected a text or a number"),
    ("pipeline", "a\0b", "unprintable"),
    ("pipeline", "a\n-load=x.so", "unprintable"),
    ("pipeline", "a\u2028b", "unprintable"),
    ("pipeline", "\udc80", "unprintable"),
    ("pipeline", "x" * 60_000, "at most 50000 characters"),
    ("pipeline", "../../etc/passwd", "names no path"),
    ("word", "-load=x.so", "begins a word"),
    ("word", "@more", "begins a word"),
    ("word", "", "begins a word"),
    ("word", -1, "begins a word"),
    ("word", "native", "another processor"),
    ("-mcpu=", "native", "another processor"),
    ("-o x", "", "not one option"),
    ("-a=", "b c", "not one option"),
    ("-", "", "not one option"),
    ("--", "", "not one option"),
    ("-a=", "é", "not one option"),
    ("-load=./evil.so", "", "names no path"),
    ("-a=", False, "expected a text or a number"),
]


@pytest.mark.parametrize(
    ("name", "value", "said"), REFUSED, ids=[f"{name}{value!r}"[:30] for name, value, _ in REFUSED]
)
def test_what_would_be_more_than_a_value_is_refused_in_a_marker_and_in_an_artifact(
    project: Path, name: str, value: KnobValue, said: str
) -> None:
    command = gcc(
        "gcc -O{pipeline} {word} {options} -o {out}", defaults={"pipeline": "1", "word": "kernels/twice.c"[8:]}
    )
    found = builder(project, command)
    with pytest.raises(MarkerError, match=said):
        found.render(Candidate({name: value}))
    with pytest.raises(StoreError, match="cannot stand in a controls file"):
        found.parse("options", b"", {name: value})


def test_options_without_a_place_are_refused(project: Path) -> None:
    found = builder(project, gcc("gcc -O{level} {source} -o {out}"))
    with pytest.raises(MarkerError, match=r"'-funroll-loops' has no place in Command's steps: write \{options\}"):
        found.render(Candidate({"-funroll-loops": ""}))


def test_committed_controls_must_be_what_their_knobs_give(project: Path) -> None:
    found = builder(project, gcc())
    with pytest.raises(StoreError, match=r"line 1 is b'-fplugin=x\.so"):
        found.parse("options", b"-fplugin=x.so\nlevel=2\n", {"level": 2})
    with pytest.raises(StoreError, match="named knobs, and this is a blob"):
        found.parse("blob", b"\0", {})
    with pytest.raises(MarkerError, match="opaque"):
        found.render(Candidate({}, blob=b"\0"))


@given(
    value=st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans(),
    step=st.sampled_from(["cc {k} {source} -o {out}", "cc -x={k}{k}y {source} -o {out}", "cc {k}={source} '{k} z' -o {out}"]),
)  # fmt: skip
def test_a_value_is_refused_or_stays_in_its_place(value: KnobValue, step: str) -> None:
    template = read_template([step], {"k": "default"}, 1)
    own = {"source": ("s.c",), "out": ("a.out",)}
    try:
        controls = template.render(Candidate({"k": value}))
    except MarkerError:
        return
    (words,) = template.words(controls.knobs, own)
    expected = [
        word.replace("{k}", "\0").replace("{source}", "s.c").replace("{out}", "a.out") for word in template.steps[0]
    ]
    assert words == [word.replace("\0", str(value)) for word in expected]
    assert len(controls.data.decode().splitlines()) == 1
    assert not any(word.startswith(("-", "@")) for word, given in zip(words, expected, strict=True) if given[0] == "\0")


@given(name=st.text(min_size=1), value=st.text() | st.integers())
def test_an_option_is_refused_or_is_one_word(name: str, value: KnobValue) -> None:
    template = read_template(["cc {options} -o {out}"], {}, 1)
    try:
        controls: ControlsFile = template.render(Candidate({f"-{name}": value}))
    except MarkerError:
        return
    assert template.words(controls.knobs, {"out": ("a.out",)}) == [["cc", f"-{name}{value}", "-o", "a.out"]]
    assert controls.data.split() == [f"-{name}{value}".encode()]
