"""What is executed of a kernel's files: what its definition names, in order, and nothing else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.triton.definitions import ImportRoot, ModuleSlice, needed
from pytest_compileiq.toolchains.triton.statements import read_source
from tests.files import write_files

KERNEL = "@triton.jit\ndef kernel(x):\n    return {}\n"


def executed(root: Path, files: dict[str, str], module: str = "k", wanted: str = "kernel") -> dict[str, list[str]]:
    """Module → the statements of it that are executed, in order."""
    write_files(root, files)
    roots = [ImportRoot(root)]
    path = next(
        path for path in (root / f"{module.replace('.', '/')}.py", root / module / "__init__.py") if path.is_file()
    )
    parts = needed(module, path, wanted, roots)
    return {
        name: [ast.unparse(read_source(part.path).statements[number].node) for number in sorted(part.statements)]
        for name, part in parts.items()
    }


def of_kernel(root: Path, before: str, body: str = "x", after: str = "") -> list[str]:
    """What is executed of a file besides the kernel itself."""
    statements = executed(root, {"k.py": f"{before}\n{KERNEL.format(body)}\n{after}"})["k"]
    return [statement for statement in statements if "def kernel" not in statement]


@pytest.mark.parametrize(
    ("before", "body", "after", "expected"),
    [
        ("import triton, torch\nx = torch.rand(7)", "x", "kernel[1](x)\nprint(x)", ["import triton"]),
        ("SIZE = 4\nOTHER = 5", "x * SIZE", "", ["SIZE = 4"]),
        ("A = 2\nB = A + 1", "x * B", "", ["A = 2", "B = A + 1"]),
        ("def inner(x):\n    return x * LATER", "inner(x)", "LATER = 3\nUNUSED = 4",
         ["def inner(x):\n    return x * LATER", "LATER = 3"]),
        ("table = {}\ntable['a'] = 1\nother = {}\nother['a'] = 1", "x * table", "", ["table = {}", "table['a'] = 1"]),
        ("sizes = []\nfor n in [1, 2]:\n    sizes.append(n)", "x * sizes", "",
         ["sizes = []", "for n in [1, 2]:\n    sizes.append(n)"]),
        ("if True:\n    FAST = 1\nelse:\n    FAST = 2", "x * FAST", "", ["if True:\n    FAST = 1\nelse:\n    FAST = 2"]),
        ("try:\n    import fast\nexcept ImportError:\n    fast = None", "x * fast", "",
         ["try:\n    import fast\nexcept ImportError:\n    fast = None"]),
        ("SIZE = 4", "x * SIZE", "if __name__ == '__main__':\n    SIZE = 5", ["SIZE = 4"]),
        ("kernels = []", "x", "kernel.warmup(1)\nkernels.append(kernel)", []),
        ("SIZE = 1\ndef grow():\n    global SIZE\n    SIZE = 2\ngrow()\nprint(grow)", "x * SIZE", "",
         ["SIZE = 1", "def grow():\n    global SIZE\n    SIZE = 2", "grow()", "print(grow)"]),
        ("sizes = []\ndef add(n):\n    sizes.append(n)\nadd(64)", "x * sizes", "",
         ["sizes = []", "def add(n):\n    sizes.append(n)", "add(64)"]),
        ("sizes = {}\ndef put(n):\n    sizes[n] = n\ndef add(n):\n    put(n)\nadd(64)", "x * sizes", "",
         ["sizes = {}", "def put(n):\n    sizes[n] = n", "def add(n):\n    put(n)", "add(64)"]),
        ("sizes = []\ndef measure(sizes):\n    sizes.append(1)\nmeasure([])", "x * sizes", "", ["sizes = []"]),
        ("all = []\nadd = lambda n: all.append(n) or n\none = add(1)", "x * all", "", ["all = []"]),
        ("table = {}\ndef reg(f):\n    table[f.__name__] = f\n@reg\ndef helper(x):\n    return x", "x * table", "",
         ["table = {}", "def reg(f):\n    table[f.__name__] = f", "@reg\ndef helper(x):\n    return x"]),
        ("table = Table()\n@table.register('a')\ndef helper(x):\n    return x", "x * table", "",
         ["table = Table()", "@table.register('a')\ndef helper(x):\n    return x"]),
        ("try:\n    import tl\nexcept ImportError:\n    raise", "x * tl", "def run():\n    tl.store(1)\nrun()",
         ["try:\n    import tl\nexcept ImportError:\n    raise"]),
        ("from numbers import *", "x * SIZE", "", ["from numbers import *"]),
    ],
)  # fmt: skip
def test_a_file_is_executed_as_far_as_the_kernel_names_it(tmp_path, before, body, after, expected):
    assert of_kernel(tmp_path, before, body, after) == expected


def test_what_a_decorator_reads_is_what_stands_before_it(tmp_path):
    source = "configs = [1]\n@autotune(configs)\n@triton.jit\ndef kernel(x):\n    return x\nconfigs = [benchmark()]\n"
    statements = executed(tmp_path, {"k.py": source})["k"]
    assert statements[0] == "configs = [1]"
    assert len(statements) == 2


@pytest.mark.parametrize("pruner", ["prune", "lambda *given: prune(*given)"])
def test_what_would_prune_configs_is_never_called_and_needs_nothing(tmp_path, pruner):
    before = "def prune(configs, given):\n    from world import CACHE\n    return CACHE"
    decorator = f"@triton.autotune([], [], prune_configs_by={{'early_config_prune': {pruner}, 'top_k': 3}})"
    files = {"k.py": f"{before}\n{decorator}\n{KERNEL.format('x')}", "world.py": "CACHE = {}"}
    told = executed(tmp_path, files)
    assert [*told] == ["k"] and len(told["k"]) == 1
    assert "{'early_config_prune': print, 'top_k': 3}" in told["k"][0]


def test_annotations_that_are_not_evaluated_need_nothing(tmp_path):
    helper = "def helper(x: torch.Tensor):\n    return x"
    lazily = of_kernel(tmp_path, f"from __future__ import annotations\nimport torch\n{helper}", "helper(x)")
    eagerly = of_kernel(tmp_path, f"import torch\n{helper}", "helper(x)")
    assert (lazily, eagerly) == ([helper], ["import torch", helper])


PACKAGE = {
    "pkg/__init__.py": "from .ops import everything\nVERSION = heavy()\n",
    "pkg/ops/__init__.py": "from .norm import *\n",
    "pkg/ops/norm.py": f"from ..shared import SIZE, unused\nfrom . import maths\n{KERNEL.format('maths.twice(x) * SIZE')}",
    "pkg/ops/maths.py": "import torch\ndef twice(x):\n    return x * 2\ndef thrice(x):\n    return torch.x(x)\n",
    "pkg/shared.py": "import pkg.ops.sizes\nSIZE = pkg.ops.sizes.ROWS\nunused = 1\n",
    "pkg/ops/sizes.py": "ROWS = 4\nCOLUMNS = measure()\n",
}


def test_a_package_is_executed_as_far_as_the_kernel_names_it(tmp_path):
    statements = executed(tmp_path, PACKAGE, "pkg.ops.norm")
    assert {name for name, executed_ in statements.items() if not executed_} == {"pkg", "pkg.ops"}
    assert statements["pkg.ops.maths"] == ["def twice(x):\n    return x * 2"]
    assert statements["pkg.ops.sizes"] == ["ROWS = 4"]
    assert statements["pkg.shared"] == ["import pkg.ops.sizes", "SIZE = pkg.ops.sizes.ROWS"]


def test_a_kernel_is_found_where_it_is_imported_from(tmp_path):
    statements = executed(tmp_path, {**PACKAGE, "k.py": "from pkg.ops import kernel\n"})
    assert statements["k"] == ["from pkg.ops import kernel"]
    assert statements["pkg.ops"] == ["from .norm import *"]
    assert any("def kernel" in statement for statement in statements["pkg.ops.norm"])


REGISTRY = """\
TABLE = []
UNUSED = []
def register(n):
    TABLE.append(n)
def note(n):
    UNUSED.append(n)
"""


@pytest.mark.parametrize(
    ("imports", "changes"),
    [
        ("from registry import TABLE, register, note", "register(64)"),
        ("from registry import TABLE, register as add, note", "add(64)"),
        ("import registry\nfrom registry import TABLE, note", "registry.register(64)"),
        ("from registry import TABLE, note", "TABLE.append(64)"),
        ("import registry\nfrom registry import TABLE, note", "registry.TABLE.append(64)"),
        ("import registry\nfrom registry import TABLE, note", "registry.TABLE[0] = 64"),
    ],
)
def test_what_changes_a_table_of_another_module_is_executed(tmp_path, imports, changes):
    kernel = KERNEL.format("x * TABLE")
    files = {"k.py": f"{imports}\n{changes}\nnote(1)\n{kernel}", "registry.py": REGISTRY}
    statements = executed(tmp_path, files)
    assert changes in statements["k"]
    assert "note(1)" not in statements["k"]
    assert "TABLE = []" in statements["registry"]
    assert "UNUSED = []" not in statements["registry"]


SUB = "ROWS = 4\nCOLUMNS = measure()\ndef f(x):\n    return x * ROWS\n"
F = ["ROWS = 4", "def f(x):\n    return x * ROWS"]


@pytest.mark.parametrize(
    ("package", "imports", "called"),
    [
        ("from . import sub", "from pkg import sub", "sub.f(x)"),
        ("from . import sub", "import pkg.sub", "pkg.sub.f(x)"),
        ("from . import sub as s", "from pkg import s", "s.f(x)"),
        ("from . import sub as s", "import pkg", "pkg.s.f(x)"),
        ("import pkg.sub as sub", "from pkg import sub as given", "given.f(x)"),
        ("from .inner import *", "from pkg import sub", "sub.f(x)"),
        ("try:\n    from . import sub\nexcept ImportError:\n    sub = None", "from pkg import sub", "sub.f(x)"),
        ("", "def twice(x):\n    from pkg import sub\n    return sub.f(x)", "twice(x)"),
        ("", "def twice(x):\n    import pkg.sub as s\n    return s.f(x)", "twice(x)"),
    ],
)
def test_a_module_is_followed_through_whatever_names_it(tmp_path, package, imports, called):
    files = {"pkg/__init__.py": f"{package}\n", "pkg/sub.py": SUB, "pkg/inner.py": "from . import sub\n"}
    statements = executed(tmp_path, {**files, "k.py": f"{imports}\n{KERNEL.format(called)}"})
    assert statements["pkg.sub"] == F


def test_a_function_that_has_its_module_s_name_is_the_function(tmp_path):
    files = {"pkg/__init__.py": "from .f import f\n", "pkg/f.py": f"{SUB}unused = measure()\n"}
    statements = executed(tmp_path, {**files, "k.py": f"from pkg import f\n{KERNEL.format('f(x)')}"})
    assert statements["pkg.f"] == F


def test_a_module_s_file_goes_before_a_directory_of_its_name(tmp_path):
    write_files(
        tmp_path, {"a/sub/notes.txt": "", "b/sub.py": SUB, "a/k.py": f"import sub\n{KERNEL.format('sub.f(x)')}"}
    )
    roots = [ImportRoot(tmp_path / "a"), ImportRoot(tmp_path / "b")]
    assert needed("k", tmp_path / "a" / "k.py", "kernel", roots)["sub"].path == tmp_path / "b" / "sub.py"


def test_an_argument_that_has_the_name_of_an_import_elsewhere_is_no_module(tmp_path):
    files = {"sub.py": SUB, "k.py": f"def other():\n    import sub as x\n    return x\n{KERNEL.format('x')}"}
    assert "sub" not in executed(tmp_path, files)


def test_a_module_that_is_handed_on_is_executed_whole(tmp_path):
    files = {"k.py": f"import sizes\nSIZE = pick(sizes)\n{KERNEL.format('x * SIZE')}", "sizes.py": "A = 1\nB = 2\n"}
    assert executed(tmp_path, files)["sizes"] == ["A = 1", "B = 2"]


def test_what_nobody_here_wrote_is_imported_as_it_is(tmp_path):
    files = {
        "k.py": f"import random\nimport triton\n{KERNEL.format('random.x')}",
        "random.py": "",
        "triton/__init__.py": "",
    }
    assert executed(tmp_path, files).keys() == {"k"}


def test_a_file_that_does_not_parse_is_said_where_it_is_executed(tmp_path):
    assert executed(tmp_path, {"k.py": "def kernel(:\n"}) == {"k": []}
    with pytest.raises(SyntaxError, match=r"k\.py, line 1"):
        ModuleSlice("k", tmp_path / "k.py").code()


CONDITIONAL = {
    "pkg/__init__.py": "",
    "pkg/world.py": "raise SystemExit\n",
    "pkg/k.py": "from pkg.utils import HAS_TRITON, tl, triton, WIDTH\n"
    + KERNEL.format("tl.load(x) * WIDTH if HAS_TRITON else 0"),
}


@pytest.mark.parametrize(
    ("utils", "given"),
    [
        (
            "from pkg.world import HAS_TRITON\nif TYPE_CHECKING or HAS_TRITON:\n    import triton\n    import triton.language as tl\n"
            "else:\n    triton = tl = Placeholder()\n",
            ["HAS_TRITON", "tl", "triton"],
        ),
        (
            "tl = None\ntry:\n    import triton, triton.language as tl\nexcept ImportError:\n    triton = Placeholder()\n"
            "HAS_TRITON = 7\n",
            ["tl", "triton"],
        ),
        (
            "if world.GPU and HAS_TRITON:\n    try:\n        import triton\n        from triton import language as tl\n"
            "    finally:\n        pass\nHAS_TRITON = 7\n",
            ["tl", "triton"],
        ),
    ],
)
def test_triton_is_there_whatever_a_module_makes_its_import_depend_on(tmp_path, utils, given):
    files = CONDITIONAL | {"pkg/utils.py": f"from pkg import world\n{utils}WIDTH = 4\n"}
    roots = [ImportRoot(write_files(tmp_path, files))]
    parts = needed("pkg.k", tmp_path / "pkg" / "k.py", "kernel", roots)
    assert parts.keys() == {"pkg", "pkg.k", "pkg.utils"}
    assert sorted(parts["pkg.utils"].given) == given
    assert [
        ast.unparse(read_source(tmp_path / "pkg/utils.py").nodes[number]) for number in parts["pkg.utils"].statements
    ] == ["HAS_TRITON = 7", "WIDTH = 4"][len(given) - 2 :]
    assert parts["pkg.utils"].assumed == [name for name in given if name == "HAS_TRITON"]
    assert {"triton", "tl", "WIDTH"} <= set(parts["pkg.utils"].code().co_names)


@pytest.mark.parametrize("read", ["utils.WIDTH, utils.triton, utils.HAS_TRITON", "f(utils)"], ids=["some", "whole"])
def test_triton_is_there_before_and_behind_what_a_module_puts_in_its_place(tmp_path, monkeypatch, read):
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    sys.modules["triton"].WIDTH = 4
    utils = "HAS_TRITON = False\nif HAS_TRITON:\n    import triton\nelse:\n    triton = Fake()\nWIDTH = triton.WIDTH\n"
    files = {"utils.py": f"class Fake:\n    WIDTH = 1\n{utils}", "k.py": "import utils\n" + KERNEL.format(read)}
    parts = needed("k", write_files(tmp_path, files) / "k.py", "kernel", [ImportRoot(tmp_path)])
    names = {}
    exec(parts["utils"].code(), names)
    assert (names["triton"], names["WIDTH"]) == (sys.modules["triton"], 1 if read == "f(utils)" else 4)


def test_a_definition_that_reaches_over_a_whole_package_is_refused_by_what_it_names(tmp_path):
    world = "".join(f"def part_{number}():\n    return part_{number + 1}()\n" for number in range(1100))
    world += "def part_1100():\n    return 1\n"
    files = {
        "pkg/__init__.py": "",
        "pkg/world.py": world,
        "pkg/own.py": world + "WIDTH = part_0()\n" + KERNEL.format("x * WIDTH"),
        "pkg/k.py": "from pkg.world import part_0 as first\nWIDTH = first()\n" + KERNEL.format("x * WIDTH"),
    }
    roots = [ImportRoot(write_files(tmp_path, files))]
    with pytest.raises(
        MarkerError, match=r"definition of kernel names pkg\.world\.part_0, .* of 1 module, which are not"
    ):
        needed("pkg.k", tmp_path / "pkg" / "k.py", "kernel", roots)
    assert len(needed("pkg.own", tmp_path / "pkg" / "own.py", "kernel", roots)["pkg.own"].statements) == 1103


@pytest.mark.parametrize(
    "utils",
    [
        "if FAST:\n    import fast as tl\n",
        "if FAST:\n    import triton.language.extra.cann as tl\n",
        "if FAST:\n    from triton.language.extra import libdevice as tl\nelse:\n    from triton.language import math as tl\n",
    ],
)
def test_what_is_another_module_under_another_condition_is_imported_as_its_file_says(tmp_path, utils):
    files = CONDITIONAL | {
        "pkg/utils.py": f"import triton\nfrom pkg.world import FAST\n{utils}HAS_TRITON = WIDTH = 4\n"
    }
    roots = [ImportRoot(write_files(tmp_path, files))]
    parts = needed("pkg.k", tmp_path / "pkg" / "k.py", "kernel", roots)
    assert not parts["pkg.utils"].given
    assert "pkg.world" in parts
