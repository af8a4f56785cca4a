"""The layout shows the architecture: a directory is a room, and imports between rooms run one way.

No list of layers is kept here. The order of the rooms is what their imports make of it, and a test names the imports
that would make a circle; the root holds faces, which nobody imports, and values, which import values alone.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pytest_compileiq

PACKAGE = Path(pytest_compileiq.__file__).parent
FACES = ("plugin", "options", "session", "expect", "testing", "frameworks", "draws", "guards")
VALUES = (
    "artifact",
    "claim",
    "config",
    "errors",
    "model",
    "outcome",
    "progress",
    "reduction",
    "rooms",
    "samples",
    "space",
    "spelling",
    "table",
)
APART = ("capture", "history", "ray")  # rooms that the core does not know
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES
}


def test_msgspec_pattern_ends_where_the_text_ends():
    """msgspec searches by Python's re, whose ``$`` lets a newline pass; pydantic's is Rust's, which does not."""
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Meta"):
                for pattern in (word.value for word in node.keywords if word.arg == "pattern"):
                    assert ast.literal_eval(pattern).endswith(r"\Z"), f"{path}:{node.lineno}"


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_and_classes(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.ClassDef, ...]:
    nodes = ast.walk(tree_of(path))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef))


def room_of(path: Path) -> str:
    """The directory under the package, or the module's own name at the root."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, Path]]:
    """(line, file) of every import of our own, wherever it stands."""
    for node in imports_and_classes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (
                (node.lineno, MODULES.get(name) or MODULES[node.module])
                for name in names
                if name.startswith("pytest_compileiq.")
            )
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, MODULES[alias.name]) for alias in node.names if alias.name in MODULES)


@cache
def between_rooms() -> dict[str, dict[str, str]]:
    """Room → the rooms that it imports, each with the first line that does."""
    found: dict[str, dict[str, str]] = {}
    for path in FILES:
        for line, other in imports(path):
            if room_of(other) not in (room_of(path), "__init__"):
                where = f"{path.relative_to(PACKAGE)}:{line}"
                found.setdefault(room_of(path), {}).setdefault(room_of(other), where)
    found.pop("__init__", None)  # public names are looked up when they are used
    return found


def test_imports_between_rooms_make_no_circle():
    rooms = between_rooms()
    try:
        TopologicalSorter({room: others.keys() for room, others in rooms.items()}).prepare()
    except CycleError as error:
        circle = error.args[1]  # each is imported by the one behind it
        steps = [f"{rooms[importer][room]}: {importer} imports {room}" for room, importer in itertools.pairwise(circle)]
        pytest.fail("\n".join(steps), pytrace=False)


def test_the_root_holds_faces_and_values_only():
    at_the_root = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert at_the_root <= {*FACES, *VALUES}, "a module that is neither goes into the room whose word it is"
    assert {*FACES, *VALUES} <= at_the_root | packages


def test_values_import_values_alone():
    upward = {value: others.keys() - set(VALUES) for value, others in between_rooms().items() if value in VALUES}
    assert not {value: others for value, others in upward.items() if others}


def test_faces_are_imported_by_faces_alone():
    importers = {
        (room, face): where
        for room, others in between_rooms().items()
        for face, where in others.items()
        if face in FACES and room not in FACES
    }
    assert not importers


def test_nothing_imports_the_command_but_rooms_that_have_a_verb():
    assert not {
        room: others["cli"] for room, others in between_rooms().items() if "cli" in others and room not in APART
    }


def test_nothing_imports_a_room_that_the_core_does_not_know():
    importers = {
        (room, other): where
        for room, others in between_rooms().items()
        for other, where in others.items()
        if other in APART
    }
    assert not importers


def test_every_module_that_rooms_names_is_in_a_room_that_the_core_does_not_know():
    named = [
        node.value
        for node in ast.walk(tree_of(PACKAGE / "rooms.py"))
        if isinstance(node, ast.Constant) and f"pytest_compileiq.{node.value}" in MODULES
    ]
    assert {name.partition(".")[0] for name in named} == set(APART)


COMPILERS = {"gcc", "clang", "gfortran", "nvcc", "ptxas", "triton"}
# Beside toolchains: the doctor lists installed compilers, others write tests for them; and rules, which import no
# toolchain, learn from an artifact that nvcc's host code is no function.
KNOW_COMPILERS = (
    "toolchains/",
    "cli/doctor.py",
    "cli/kernels.py",
    "cli/init.py",
    "cli/first_",
    "capture/",
    "artifact.py",
)


def test_what_a_compiler_is_called_decides_nothing_outside_its_toolchain():
    """What depends on it is a field of ``Builder``, or of ``toolchains.deployment.Deployment``."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in FILES
        if not path.relative_to(PACKAGE).as_posix().startswith(KNOW_COMPILERS)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Compare)
        and any(isinstance(part, ast.Constant) and part.value in COMPILERS for part in ast.walk(node))
    ]
    assert not found


LIMITS = {"plugin.py": 230, "acf_runtime.py": 420}  # the latter is exported as one file, without a package beside it


def test_a_module_fits_in_the_head():
    lines = {path.relative_to(PACKAGE): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert not {path: count for path, count in lines.items() if count > LIMITS.get(path.name, 400)}


def test_what_is_public_says_what_it_is():
    silent = {path.relative_to(PACKAGE): [*_silent(tree_of(path))] for path in FILES}
    assert not {path: names for path, names in silent.items() if names}


def _silent(tree: ast.Module) -> Iterator[str]:
    if not ast.get_docstring(tree):
        yield "the module itself"
    for node in tree.body:
        is_public = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        if is_public and not ast.get_docstring(node):
            yield node.name


def test_a_public_class_has_a_name_of_its_own():
    found: dict[str, list[str]] = {}
    for path in FILES:
        for node in imports_and_classes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_rules_touch_no_file_clock_process_or_random_module():
    forbidden = {"os", "pathlib", "time", "subprocess", "random", "socket", "threading", "tempfile"}
    for path in (PACKAGE / "rules").glob("*.py"):
        used = {
            alias.name.split(".")[0]
            for node in imports_and_classes(path)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        used |= {
            node.module.split(".")[0]
            for node in imports_and_classes(path)
            if isinstance(node, ast.ImportFrom) and node.module
        }
        assert not used & forbidden, f"{path.name} imports {used & forbidden}"


def test_nobody_waits_for_all_of_scipy_s_statistics():
    """``scipy.stats`` takes a second to import; the distributions that are needed are in ``scipy.special``."""
    imported = {
        (str(path.relative_to(PACKAGE)), node.lineno)
        for path in FILES
        for node in imports_and_classes(path)
        if not isinstance(node, ast.ClassDef) and "scipy.stats" in _named(node)
    }
    assert not imported


def _named(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Modules that an import may load, by their whole names."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    return {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}


def test_every_exception_stands_in_the_one_tree():
    """All but its root, what no ``except Exception`` of a test's body may hold, and one within a watched program."""
    outside = {
        (path.name, node.name)
        for path in FILES
        for node in imports_and_classes(path)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id in ("Exception", "BaseException") for base in node.bases)
    }
    assert outside == {
        ("errors.py", "CompileIQError"),
        ("block.py", "_FailedWithin"),
        ("first_calls.py", "LeaveBody"),
        ("values.py", "Refused"),
    }
