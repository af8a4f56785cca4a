"""Do pytest, acf flags, acf export and acf verify-binary agree with the machine code after 200 random edits?

20 projects, ten of C and ten of CUDA: a kernel ``hot`` between two neighbours, a header found by -I, -isystem, -include
or a pragma, and a test that stands for ``hot`` alone. Each is tuned once, and edited ten times, every time from its
first state: kernels are added, moved and changed, comments and options added, headers changed or shadowed, variables
set. The projects and their edits are drawn by a seed.

The truth is taken from elsewhere: gcc's or nvcc's own object, read by pyelftools, objdump, readelf and cuobjdump. Of a
kernel that is the bytes of ``.text``, the data that it reaches (of C by relocations, of CUDA by name in its PTX), and
launch facts (resources, and what the PTX's entry says).

- pytest says STALE exactly where ``hot`` is another in any arm, or names the variable that it builds without.
- ``acf flags``, and ``acf export`` of CUDA, refuse exactly where a file that the compiler reads is another, or name a
  variable that it reads; so never is anything applied where the recorded command makes another ``hot``.
- ``acf verify-binary`` calls exactly those functions another that are, of the object that the edited project builds.

    python bench/edits.py [--edits 10] [--only NAME] [--results FILE.json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from machine import describe
from pytest_compileiq.toolchains.nvidia.tools import installed

ARCHITECTURE = "sm_90a"
PRAGMA = {"c": '#pragma GCC target("avx2")\n', "cu": ""}
TEST = """\
import pytest
from pytest_compileiq import Cc, Nvcc, choice, literal, minimize


@pytest.mark.tune({toolchain}, space={space}, objectives=[minimize("{metric}", of="{hot}")], budget=2, engine="grid")
def test_k(acf):
    acf.build()
"""

# ── what is edited ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Hot:
    """A kernel, and replacements in it: of its code, of its data alone, and of a name that no code depends on."""

    text: str
    code: tuple[str, str]
    data: tuple[str, str] | None = None
    name: tuple[str, str] = ("acc", "sum")


C = "int hot(int *x, int n) { int acc = 0; for (int i = 0; i < n; i++) acc += %s; return acc; }"
C_HOTS = {
    "helper": Hot(
        "static const int T[4] = {1, 7, 3, 9};\n"
        "static __attribute__((noinline)) int help(int x) { return x * x + T[x & 3]; }\n" + C % "help(x[i]) * SCALE",
        ("x * x + T", "x * x - T"), ("3, 9}", "3, 8}"),
    ),
    "switch": Hot(
        "int hot(int *x, int n) { int acc = n * SCALE; switch (x[0]) { case 0: return 11; case 1: return n / 3;"
        " case 2: x[1] = acc; return 5; case 3: return acc * acc; case 4: return x[7]; case 5: x[9]++; return 2; }"
        " return acc; }",
        ("n / 3", "n / 5"),
    ),
    "constants": Hot(
        "int hot(double *x, int n) { double acc = 0; for (int i = 0; i < n; i++) acc = acc * 1.5 + x[i] / 3.25;"
        " return acc * SCALE; }",
        ("acc * 1.5 +", "acc * 1.5 -"), ("3.25", "3.75"),
    ),
    "string": Hot(
        'int hot(char *x, int n) { const char *acc = "seven samurai"; for (int i = 0; i < n; i++) x[i] ^= acc[i % 13];'
        " return SCALE; }",
        ("i % 13", "i % 11"), ("samurai", "samurei"),
    ),
    "vector": Hot(C % "x[i] * SCALE + (x[i] >> 3)", (">> 3", ">> 5")),
    "global": Hot("int total = 4;\n" + C % "(total += x[i] * SCALE)", ("total += x", "total -= x"), ("= 4;", "= 5;")),
    "extern": Hot(
        "void *memcpy(void *, const void *, unsigned long);\n"
        "int hot(int *x, int n) { int acc[64]; memcpy(acc, x, 4 * n); return acc[n & 63] * SCALE; }",
        ("n & 63", "n & 31"),
    ),
    "pointers": Hot(
        "static int one(int x) { return x + 1; }\nstatic int two(int x) { return x * SCALE; }\n"
        "static int (*const F[2])(int) = {one, two};\n" + C % "F[x[i] & 1](x[i])",
        ("x + 1", "x + 2"), ("{one, two}", "{two, one}"),
    ),
    "local": Hot(
        C.replace("int acc = 0;", "static int acc = 3;") % "x[i] / SCALE", ("x[i] /", "x[i] %"), ("= 3;", "= 2;")
    ),
    "thread": Hot(
        "static __thread int seen[3] = {1, 2, 3};\n" + C % "seen[x[i] % 3]++ * SCALE",
        ("]++", "]--"), ("2, 3}", "2, 4}"),
    ),
}  # fmt: skip

TABLE = "__constant__ float w[4] = {1, 2, 3, 4};\n"
CU = 'extern "C" __global__ void hot(float *y, const float *x, int n) { float acc = %s; y[n] = acc / x[n] * SCALE; }'
CU_HOTS = {
    "nothing": Hot(CU % "x[n] * x[n - 1]", ("x[n - 1]", "x[n - 2]")),
    "constant": Hot(TABLE + CU % "w[1] + w[3]", ("w[1] +", "w[0] +"), ("3, 4}", "3, 5}")),
    "indexed": Hot(TABLE + CU % "w[n & 3]", ("n & 3", "n & 1"), ("3, 4}", "3, 5}")),
    "global": Hot("__device__ float g[4] = {1, 2, 3, 4};\n" + CU % "g[n & 3]", ("n & 3", "n & 1"), ("3, 4}", "3, 5}")),
    "printf": Hot(CU % 'printf("hot %f", y[n])', ("y[n])", "y[0])"), ("hot %f", "not %f")),
    "called": Hot(
        "__device__ __noinline__ float third(float x) { __syncthreads(); return x / 3 + sinf(x); }\n"
        + CU % "third(x[0])",
        ("x / 3 +", "x / 3 -"),
    ),
    "switch": Hot(
        CU.replace("= %s;", "= 0; switch (n) { case 0: acc = sinf(x[1]); break; case 1: acc = x[2]; __syncthreads();"
        " break; case 2: acc = expf(x[3]); break; case 3: y[1] = 2; break; case 4: acc = rsqrtf(x[5]); }"),
        ("x[2]", "x[3]"),
    ),
    "shared": Hot(
        CU.replace(
            "float acc = %s;", "__shared__ float s[64]; s[threadIdx.x] = x[n]; __syncthreads(); float acc = s[n];"
        ),
        ("= s[n]", "= s[63 - n]"), ("s[64]", "s[96]"),
    ),
    "bounds": Hot(
        (CU % "x[n] + 1").replace("void hot", "void __launch_bounds__(256) hot"), ("+ 1", "- 1"), ("256", "128")
    ),
    "template": Hot(
        "template <int N> __global__ void hot(float *y, const float *x, int n) "
        "{ float acc = 0; for (int i = 0; i < N; i++) acc += x[i] * n; y[n] = acc / x[n] * SCALE; }\n"
        "template __global__ void hot<4>(float *, const float *, int);",
        ("x[i] * n", "x[i] - n"), None, ("acc", "sum"),
    ),
}  # fmt: skip

# Neighbour → its text, and a replacement of its code and of its data.
C_NEIGHBOURS = {
    "plain": ("int plain(int *x, int n) { for (int i = 0; i < n; i++) x[i] /= 7; return n; }", ("/= 7", "/= 9"), None),
    "table": ("static const int V[3] = {7, 8, 9};\nint table(int n) { return V[n % 3]; }",
              ("% 3", "% 2"), ("8, 9}", "8, 1}")),
    "counter": ("int count = 5;\nint counter(int n) { return count += n; }", ("+= n", "-= n"), ("= 5", "= 6")),
    "word": ('const char *word(int n) { return n ? "other" : "nothing"; }', ("n ?", "!n ?"), ("other", "ether")),
    "ratio": ("double ratio(double x) { return x * 2.5 + 1.25; }", ("x * 2.5 +", "x * 2.5 -"), ("1.25", "1.75")),
    "shared": ("static int square(int x) { return x * x; }\nint shared(int x) { return square(x) + square(x + 1); }",
               ("x * x", "x * 3"), None),
}  # fmt: skip
CU_NEIGHBOURS = {
    "plain": ('extern "C" __global__ void plain(int *y, int n) { y[threadIdx.x] *= n; }', ("*= n", "+= n"), None),
    "table": ('__constant__ int v[3] = {7, 8, 9};\nextern "C" __global__ void table(int *y) { y[0] *= v[1]; }',
              ("v[1]", "v[2]"), ("8, 9}", "1, 9}")),
    "counter": ('__device__ int count = 5;\nextern "C" __global__ void counter(int *y) { *y = atomicAdd(&count, 1); }',
                ("count, 1", "count, 2"), ("= 5", "= 6")),
    "word": ('extern "C" __global__ void word(float *y) { printf("other %f", y[0]); }',
             ("y[0]", "y[1]"), ("other", "ether")),
    "tile": ('extern "C" __global__ void tile(int *y) { __shared__ int t[32]; t[threadIdx.x] = y[0]; __syncthreads();'
             " y[1] = t[y[2]]; }", ("y[2]", "y[3]"), ("t[32]", "t[64]")),
    "modulo": ('extern "C" __global__ void modulo(int *y, int n) { y[threadIdx.x] %= n; }', ("%= n", "/= n"), None),
}  # fmt: skip
ROUTES = {
    "-I": (("-Ifirst", "-Iinc"), '#include "scale.h"\n'),
    "-isystem": (("-isystem", "first", "-isystem", "inc"), "#include <scale.h>\n"),
    "-include": (("-Ifirst", "-Iinc", "-include", "scale.h"), ""),
    "pragma": (("-Ifirst", "-Iinc"), '#include "scale.h"\n'),
}
HEADER = "#define SCALE 3\n"
CHOSEN = {  # the header of the route "pragma": the file that is read depends on what a pragma allows
    "c": '#ifdef __AVX2__\n#include "wide.h"\n#else\n#include "narrow.h"\n#endif\n',
    "cu": '#pragma once\n#include "wide.h"\n',
}


@dataclass(frozen=True)
class State:
    """A project: its source in parts, its other files, and what it is built with."""

    language: str
    head: str
    before: tuple[str, ...]
    hot: str
    after: tuple[str, ...]
    files: Mapping[str, str]
    flags: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return f"k.{self.language}"

    @property
    def text(self) -> str:
        return "\n".join([self.head, *self.before, self.hot, *self.after]) + "\n"

    def with_file(self, path: str, text: str) -> State:
        return replace(self, files={**self.files, path: text})

    def with_flags(self, *flags: str) -> State:
        return replace(self, flags=(*self.flags, *flags))

    def with_variable(self, name: str, value: str) -> State:
        return replace(self, environment={**self.environment, name: value})


@dataclass(frozen=True)
class Project:
    """What the draw decided: the kernel, its two neighbours, a third that may be added, and how its header is found."""

    language: str
    hot: str
    neighbours: tuple[str, str, str]
    route: str

    @property
    def name(self) -> str:
        return f"{self.language}-{self.hot}"

    @property
    def kernel(self) -> Hot:
        return (C_HOTS if self.language == "c" else CU_HOTS)[self.hot]

    def neighbour(self, number: int) -> tuple[str, tuple[str, str], tuple[str, str] | None]:
        return (C_NEIGHBOURS if self.language == "c" else CU_NEIGHBOURS)[self.neighbours[number]]

    @property
    def defining(self) -> str:
        """The file that says SCALE."""
        return "inc/wide.h" if self.route == "pragma" else "inc/scale.h"

    def state(self) -> State:
        flags, include = ROUTES[self.route]
        files = {"first/other.h": "", "inc/scale.h": HEADER, "apart/scale.h": "#define SCALE 7\n"}
        head = include if self.language == "c" else f"#include <cstdio>\n{include}"
        if self.route == "pragma":
            files |= {"inc/scale.h": CHOSEN[self.language], "inc/wide.h": HEADER, "inc/narrow.h": "#define SCALE 5\n"}
            head = PRAGMA[self.language] + head
        level = ("-O3",) if self.language == "c" else ()
        before, after = ((self.neighbour(number)[0],) for number in (0, 1))
        return State(self.language, head, before, self.kernel.text, after, files, (*level, *flags))


Edit = Callable[[Project, State], State | None]  # None where a project has nothing to edit so


def changed(text: str, pair: tuple[str, str] | None) -> str | None:
    if pair is None:
        return None
    assert pair[0] in text, f"{pair[0]!r} is not in {text!r}"
    return text.replace(*pair)


def of_hot(which: str) -> Edit:
    def edit(project: Project, state: State) -> State | None:
        text = changed(state.hot, getattr(project.kernel, which))
        return replace(state, hot=text) if text and text != state.hot else None

    return edit


def of_neighbour(number: int, which: int) -> Edit:
    def edit(project: Project, state: State) -> State | None:
        text = changed(project.neighbour(number)[0], project.neighbour(number)[which])  # type: ignore[arg-type]
        return text and replace(state, **{("before", "after")[number]: (text,)})  # type: ignore[return-value]

    return edit


def of_header(text: str) -> Edit:
    return lambda project, state: state.with_file(project.defining, text)


def of_flags(*flags: str) -> Edit:
    return lambda project, state: state.with_flags(*flags)


def of_variable(name: str, value: str) -> Edit:
    return lambda project, state: state.with_variable(name, value)


def _moved(project: Project, state: State) -> State:
    return replace(state, before=(), after=(*state.before, *state.after))


def _swapped(project: Project, state: State) -> State:
    return replace(state, before=state.after, after=state.before)


def _split(project: Project, state: State) -> State:
    return state.with_file("inc/value.h", HEADER).with_file(project.defining, '#include "value.h"\n')


def _with_an_empty_file(project: Project, state: State) -> State:
    return state.with_file("inc/empty.h", "").with_flags("-include", "empty.h")


EDITS: dict[str, Edit] = {
    "comment above": lambda project, state: replace(state, head=f"/* A comment,\n   of two lines. */\n{state.head}"),
    "comment in hot": lambda project, state: replace(state, hot=state.hot.replace("{ ", "{ /* here */ ", 1)),
    "comment below": lambda project, state: replace(state, after=(*state.after, "// The end.")),
    "kernel added before": lambda project, state: replace(state, before=(*state.before, project.neighbour(2)[0])),
    "kernel added after": lambda project, state: replace(state, after=(*state.after, project.neighbour(2)[0])),
    "kernel removed": lambda project, state: replace(state, after=()),
    "hot moved up": _moved,
    "neighbours swapped": _swapped,
    "hot's code": of_hot("code"),
    "hot's data": of_hot("data"),
    "hot's local renamed": of_hot("name"),
    "code of the one before": of_neighbour(0, 1),
    "code of the one after": of_neighbour(1, 1),
    "data of the one before": of_neighbour(0, 2),
    "data of the one after": of_neighbour(1, 2),
    "header's value": of_header("#define SCALE 6\n"),
    "header's comment": of_header(f"/* by how much */\n{HEADER}"),
    "header's other macro": of_header(f"{HEADER}#define UNUSED 1\n"),
    "header split": _split,
    "header shadowed by another": lambda project, state: state.with_file("first/scale.h", "#define SCALE 9\n"),
    "header shadowed by the same": lambda project, state: state.with_file("first/scale.h", HEADER),
    "header beside the source": lambda project, state: state.with_file("scale.h", "#define SCALE 11\n"),
    "header that nobody reads": lambda project, state: state.with_file("first/unread.h", "#define SCALE 13\n"),
    "-g": of_flags("-g"),
    "-DUNUSED": of_flags("-DUNUSED=1"),
    "-Iapart": lambda project, state: replace(state, flags=("-Iapart", *state.flags)),
    "-I of nothing": of_flags("-Inowhere"),
    "-include of an empty file": _with_an_empty_file,
    "CFLAGS": of_variable("CFLAGS", "-O0"),
    "CPATH": of_variable("CPATH", "apart"),
    "CPLUS_INCLUDE_PATH": of_variable("CPLUS_INCLUDE_PATH", "apart"),
    "C_INCLUDE_PATH": of_variable("C_INCLUDE_PATH", "apart"),
    "SOURCE_DATE_EPOCH": of_variable("SOURCE_DATE_EPOCH", "86400"),
}  # fmt: skip
C_EDITS: dict[str, Edit] = {
    "-g3 -gdwarf-4": of_flags("-g3", "-gdwarf-4"),
    "-ffunction-sections": of_flags("-ffunction-sections"),
    "-fno-tree-vectorize": of_flags("-fno-tree-vectorize"),
    "-Wall": of_flags("-Wall"),
    "a pragma's target": lambda project, state: replace(state, head=f'#pragma GCC target("avx2,fma")\n{state.head}'),
    "a pragma's optimisation": lambda project, state: replace(state, head=f'#pragma GCC optimize("O1")\n{state.head}'),
}
CU_EDITS: dict[str, Edit] = {
    "-lineinfo": of_flags("-lineinfo"),
    "-rdc": of_flags("-rdc=true"),
    "-G": of_flags("-G"),
    "-maxrregcount": of_flags("-maxrregcount=32"),
    "-Xcompiler": of_flags("-Xcompiler", "-Wall"),
    "-fmad": of_flags("-fmad=false"),
    "NVCC_APPEND_FLAGS -lineinfo": of_variable("NVCC_APPEND_FLAGS", "-lineinfo"),
    "NVCC_APPEND_FLAGS -ftz": of_variable("NVCC_APPEND_FLAGS", "-ftz=true -prec-div=false"),
    "NVCC_PREPEND_FLAGS": of_variable("NVCC_PREPEND_FLAGS", "-Iapart"),
    "PTXAS_FLAGS": of_variable("PTXAS_FLAGS", "-O1"),
    "INCLUDES": of_variable("INCLUDES", "-Iapart"),
}


def drawn(seed: int, edits: int) -> list[tuple[Project, list[str]]]:
    """20 projects, every kernel once, and the edits of each."""
    generator, projects = random.Random(seed), []
    for language, hots, neighbours in (("c", C_HOTS, C_NEIGHBOURS), ("cu", CU_HOTS, CU_NEIGHBOURS)):
        for number, hot in enumerate(hots):
            others = generator.sample(sorted(neighbours), 3)
            route = sorted(ROUTES)[(number + generator.randrange(2)) % len(ROUTES)]
            project = Project(language, hot, (others[0], others[1], others[2]), route)
            every = {**EDITS, **(C_EDITS if language == "c" else CU_EDITS)}
            state = project.state()
            possible = [name for name, edit in every.items() if edit(project, state) is not None]
            projects.append((project, generator.sample(possible, len(possible))[:edits]))
    return projects


# ── the truth ────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def nvidia(tool: str) -> str:
    return next(installed(tool)).program


def ran(words: Sequence[str], root: Path, environment: Mapping[str, str] | None = None) -> str:
    """What a program printed that must succeed."""
    given = {**os.environ, **(environment or {}), "LC_ALL": "C"}
    done = subprocess.run(words, cwd=root, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}{done.stdout}"
    return done.stdout


@dataclass(frozen=True)
class Made:
    """What the compiler made of a state: of both arms each function's facts, and the project's files that it read."""

    baseline: Mapping[str, object]
    tuned: Mapping[str, object]
    read: Mapping[str, str]

    def others(self, before: Made, *arms: str) -> set[str]:
        """The functions of ``before`` that are others here, or gone, in any of the ``arms``."""
        pairs = [(getattr(before, arm), getattr(self, arm)) for arm in arms]
        return {name for then, now in pairs for name in then if now.get(name) != then[name]}


def make(state: State, root: Path, controls: Sequence[str], output: str) -> Made:
    """Build both arms as a product's makefile would; the tuned object is left at ``output``."""
    objects = {"baseline": "build/baseline.o", "tuned": output}
    (root / "build").mkdir(exist_ok=True)
    for arm, path in objects.items():
        ran([*command(state), *(controls if arm == "tuned" else ()), state.source, "-o", path], root, state.environment)
    # The compile's own list: gcc's -M alone takes no heed of a pragma.
    ran([*command(state), "-MD", "-MF", "build/k.d", state.source, "-o", "build/read.o"], root, state.environment)
    words = (root / "build" / "k.d").read_text().replace("\\\n", " ").split()
    here = {os.path.relpath(root / word, root) for word in words if not word.endswith(":")}
    read = {path: (root / path).read_text() for path in here & {*state.files, state.source}}
    functions = functions_of if state.language == "c" else kernels_of
    return Made(functions(root / objects["baseline"]), functions(root / output), read)


def command(state: State) -> list[str]:
    if state.language == "c":
        return ["gcc", *state.flags, "-fPIC", "-fno-gnu-unique", "-c"]
    return [nvidia("nvcc"), f"-arch={ARCHITECTURE}", *state.flags, "-c"]


def functions_of(path: Path) -> dict[str, object]:
    """Exported function → its bytes, its relocations, and the local functions and data that these reach."""
    with path.open("rb") as stream:
        return _Object(ELFFile(stream), *instructions(path)).exported()


def instructions(path: Path) -> tuple[dict[str, list[int]], dict[str, dict[int, str]]]:
    """Section → where its instructions begin, and place → the function that is called there, by objdump."""
    begins: dict[str, list[int]] = {}
    calls: dict[str, dict[int, str]] = {}
    section = ""
    for line in ran(["objdump", "-d", "--no-show-raw-insn", path.name], path.parent).splitlines():
        if found := re.match(r"Disassembly of section (\S+):", line):
            section = found[1]
        elif found := re.match(r"\s+([0-9a-f]+):\t", line):
            begins.setdefault(section, []).append(int(found[1], 16))
            if called := re.search(r"<([^+>]+)>$", line):
                calls.setdefault(section, {})[int(found[1], 16)] = called[1]
    return begins, calls


class _Object:
    def __init__(
        self, elf: ELFFile, begins: Mapping[str, Sequence[int]], calls: Mapping[str, Mapping[int, str]]
    ) -> None:
        self.sections = list(elf.iter_sections())
        self.begins, self.calls = begins, calls
        self.symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
        self.patches: dict[int, list[tuple[int, int, int, int]]] = {}  # section → offset, type, symbol, addend
        for section in self.sections:
            if isinstance(section, RelocationSection):
                self.patches[section["sh_info"]] = sorted(
                    (patch["r_offset"], patch["r_info_type"], patch["r_info_sym"], patch["r_addend"])
                    for patch in section.iter_relocations()
                )
        self.places: dict[int, set[int]] = {}  # section → where something begins that is referred to
        for index, patches in self.patches.items():
            for patch in patches:
                target, at = self.target(index, patch)
                if target is not None:
                    self.places.setdefault(target, set()).add(at)

    def exported(self) -> dict[str, object]:
        found = {}
        for symbol in self.symbols:
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_info"]["bind"] != "STB_LOCAL":
                begin = symbol["st_value"]
                found[symbol.name] = self.node(symbol["st_shndx"], begin, begin + symbol["st_size"], {})
        return found

    def target(self, index: int, patch: tuple[int, int, int, int]) -> tuple[int | None, int]:
        """The section and the place in it that a relocation means; None for what another object may define."""
        offset, kind, number, addend = patch
        symbol = self.symbols[number]
        section = symbol["st_shndx"]
        is_local = symbol["st_info"]["bind"] == "STB_LOCAL" or symbol["st_info"]["type"] == "STT_OBJECT"
        if not isinstance(section, int) or not is_local:
            return None, addend
        is_relative = kind in (2, 4, 9, 19, 20, 41, 42)  # R_X86_64_PC32, PLT32, GOTPCREL, TLSGD, TLSLD, GOTPCRELX
        begins = self.begins.get(self.sections[index].name, ()) if is_relative else ()
        following = next((begin for begin in begins if begin > offset), None)
        if following is None and begins:
            following = self.sections[index]["sh_size"]
        return section, symbol["st_value"] + addend + (following - offset if following else 0)

    def node(self, index: int, begin: int, end: int, met: dict[tuple[int, int], int]) -> object:
        """The bytes from ``begin`` to ``end`` with what their relocations reach; one that was met is its number."""
        if (index, begin) in met:
            return met[index, begin]
        met[index, begin] = len(met)
        section = self.sections[index]
        held = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()[begin:end]
        inside = [patch for patch in self.patches.get(index, ()) if begin <= patch[0] < end]
        reached = [(patch[0] - begin, patch[1], self.reached(index, begin, end, patch, met)) for patch in inside]
        called = [
            (at - begin, self.node(index, other["st_value"], other["st_value"] + other["st_size"], met))
            for at, name in self.calls.get(section.name, {}).items()
            if begin <= at < end
            for other in self.symbols
            if (other.name, other["st_shndx"], other["st_info"]["type"]) == (name, index, "STT_FUNC")
        ]
        return (end - begin, held, reached, called)

    def reached(self, index: int, begin: int, end: int, patch: tuple[int, int, int, int], met: dict) -> object:
        target, at = self.target(index, patch)
        symbol = self.symbols[patch[2]]
        if target is None:
            return (symbol.name, at)
        section = self.sections[target]
        if section["sh_flags"] & 4:  # code: a label in the function, or a function
            if patch[1] == 2 and not self.sections[index]["sh_flags"] & 4:
                at -= patch[0] - begin  # an entry of a table of distances from the table
            for other in self.symbols:
                first, size = other["st_value"], other["st_size"]
                if (
                    other["st_shndx"] == target
                    and other["st_info"]["type"] == "STT_FUNC"
                    and first <= at < first + size
                ):
                    if other["st_info"]["bind"] != "STB_LOCAL":
                        return ("in", other.name, at - first)
                    return (at - first, self.node(target, first, first + size, met))
            return ("code", at - begin)
        for other in self.symbols:
            first, size = other["st_value"], other["st_size"]
            is_data = other["st_info"]["type"] in ("STT_OBJECT", "STT_TLS") and other["st_shndx"] == target
            if is_data and (first <= at < first + size or (symbol is other and size)):
                return (at - first, self.node(target, first, first + size, met))
        if section["sh_flags"] & 0x20:  # strings
            return self.node(target, at, section.data().index(b"\0", at) + 1, met)
        if section["sh_flags"] & 0x10 and section["sh_entsize"]:  # constants of one size
            return self.node(target, at, at + section["sh_entsize"], met)
        ends = [place for place in sorted(self.places[target]) if place > at]
        return self.node(target, at, ends[0] if ends else section["sh_size"], met)


def kernels_of(path: Path) -> dict[str, object]:
    """Kernel → the bytes of its code, the data that it names in its PTX, and the facts of its launch."""
    with tempfile.TemporaryDirectory() as home:
        ran([nvidia("cuobjdump"), "-xelf", "all", "-xptx", "all", str(path.absolute())], Path(home))
        (cubin,) = Path(home).glob("*.cubin")
        ptx = next(Path(home).glob(f"*{ARCHITECTURE}.ptx")).read_text()
        used = dict(
            re.findall(r"Function (\S+):\n\s*(.*)", ran([nvidia("cuobjdump"), "-res-usage", str(path)], path.parent))
        )
        with cubin.open("rb") as stream:
            elf = ELFFile(stream)
            symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
            patches = {
                section.name.removeprefix(".rela"): [
                    (patch["r_offset"], patch["r_info_type"], symbols[patch["r_info_sym"]].name)
                    for patch in section.iter_relocations()
                ]
                for section in elf.iter_sections()
                if isinstance(section, RelocationSection)
            }
            texts = {
                section.name: section.data() for section in elf.iter_sections() if section.name.startswith(".text.")
            }
    held = {
        found[1]: found[0]
        for found in re.finditer(r"^(?:\.\w+ )*\.(?:const|global) [^;]*?([\w$]+)(?:\[\d+\])?(?: =[^;]*)?;$", ptx, re.M)
    }
    functions = {found["name"]: found[0] for found in _FUNCTION.finditer(ptx)}
    facts: dict[str, object] = {}
    for name in (found["name"] for found in _FUNCTION.finditer(ptx) if found["kind"] == ".entry"):
        named = reached_names(name, functions, held.keys())
        numbered = sorted(
            held[each].replace(each, "") if each.startswith("$") else held[each] for each in named & held.keys()
        )
        code = {
            each: (texts[f".text.{each}"], patches.get(f".text.{each}", []))
            for each in {name, *named}
            if f".text.{each}" in texts
        }
        shared = re.findall(r"\.(?:max|req)ntid[^\n]*|\.min\w+ \d+", functions[name].partition("{")[0])
        parameters = re.findall(r"\.param [^,)]*?(?= \S+[,)\n])", functions[name].partition("{")[0])
        facts[name] = (code, numbered, used[name], shared, parameters)
    return facts


_FUNCTION = re.compile(
    r"^(?:\.visible |\.weak )?(?P<kind>\.entry|\.func) (?:\(.*?\) )?(?P<name>[\w$]+)\s*\((?:.|\n)*?^\}", re.MULTILINE
)


def reached_names(name: str, functions: Mapping[str, str], data: Iterator[str] | Sequence[str]) -> set[str]:
    """The functions and variables that the PTX of ``name`` names, and those that these do."""
    known, met, todo = {*functions, *data}, {name}, [name]
    while todo:
        words = set(re.findall(r"[\w$]+", functions.get(todo.pop(), ""))) & known - met
        met |= words
        todo += words
    return met - {name}


# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Judged:
    """One edit: the truth, the answers, and those that are wrong."""

    project: str
    edit: str
    others: list[str]  # the functions that are other code, in any arm
    reads: list[str]  # the files that are read and are others
    answers: dict[str, str]
    wrong: list[str]


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    code: int
    printed: str


def asked(root: Path, state: State, *words: str) -> Answer:
    given = {**os.environ, **state.environment, "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=root, env=given, capture_output=True, text=True, check=False, timeout=600
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout + done.stderr)


def write(root: Path, state: State) -> None:
    """The project of ``state`` in ``root``, beside its artifacts and what is built."""
    for path in sorted(root.rglob("*.h")):
        path.unlink()
    hot = '"hot<4>"' if "template" in state.hot else '"hot"'
    options = f'functions={hot}, neighbours="allow", flags={shlex.join(state.flags)!r}'
    toolchain, space, metric = (
        (f'Cc("k.c", {options})', '{"-O": choice(["s", "3"])}', "code_bytes")
        if state.language == "c"
        else (
            f'Nvcc("k.cu", arch="{ARCHITECTURE}", {options})',
            '{"--use_fast_math": literal("", knockout_prob=0.5)}',
            "instructions",
        )
    )
    test = TEST.format(toolchain=toolchain, space=space, metric=metric, hot=hot.strip('"'))
    files = {**state.files, state.source: state.text, "test_k.py": test, "pytest.ini": "[pytest]\n"}
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)


def judge(project: Project, name: str, root: Path, controls: Sequence[str], before: Made) -> Judged:
    """Edit the project in ``root``, ask, and compare."""
    first = project.state()
    edit = {**EDITS, **C_EDITS, **CU_EDITS}[name]
    state = edit(project, first)
    assert state is not None and state != first
    write(root, state)
    made = make(state, root, controls, "build/k.o")
    others, hot = made.others(before, "baseline", "tuned"), next(each for each in before.tuned if "hot" in each)
    recorded = (
        made
        if state.flags == first.flags
        else make(replace(state, flags=first.flags), root, controls, "build/recorded.o")
    )
    # A variable that no compiler of the language reads changes nothing, and is nobody's business.
    variables = [*state.environment]
    reads = sorted(path for path in {*before.read, *recorded.read} if before.read.get(path) != recorded.read.get(path))
    answers = {
        "pytest": asked(root, state, "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"),
        "flags": asked(root, state, "pytest_compileiq.cli", "flags", "k", "--compiler", command(state)[0]),
        "export": asked(root, state, "pytest_compileiq.cli", "export", "--runtime", "build/runtime"),
        "verify-binary": asked(root, state, "pytest_compileiq.cli", "verify-binary", "build/k.o", "--name", "k"),
    }
    wrong = []
    is_named = {which: any(each in answer.printed for each in variables) for which, answer in answers.items()}
    replayed = answers["pytest"]
    is_stale = "STALE" in replayed.printed
    if (replayed.code == 0) == is_stale or not re.search(r"STALE|PROVEN|REPLAYED", replayed.printed):
        wrong.append(f"pytest ended with {replayed.code}")
    elif is_stale != (hot in others) and not is_named["pytest"]:
        wrong.append(f"pytest says {'STALE' if is_stale else 'PROVEN'}")
    for which in ("flags", *(["export"] if project.language == "cu" else [])):  # C is for no JIT
        refused = answers[which].code == 3
        if answers[which].code not in (0, 3):
            wrong.append(f"{which} ended with {answers[which].code}")
        elif not refused and hot in recorded.others(before, "baseline", "tuned") and not is_named[which]:
            wrong.append(f"{which} applies to other code")
        elif refused != bool(reads) and not is_named[which]:
            wrong.append(
                f"{which} {'refuses' if refused else 'applies'}, and {', '.join(reads) or 'no file'} is another"
            )
    expected, verified = made.others(before, "tuned"), answers["verify-binary"]
    told = {
        each for each in before.tuned if re.search(rf"\b{re.escape(shown(each))}(?![\w])", differing(verified.printed))
    }
    if (verified.code == 0) != (not expected) or verified.code not in (0, 1):
        wrong.append(f"verify-binary ended with {verified.code}, and {sorted(expected)} are others")
    elif told != expected:
        wrong.append(f"verify-binary names {sorted(told)}, and {sorted(expected)} are others")
    printed = {which: f"{answer.code}: {answer.printed}" for which, answer in answers.items()}
    return Judged(project.name, name, sorted(others), reads, printed, wrong)


def differing(printed: str) -> str:
    """The lines of ``acf verify-binary`` on what is other than proven."""
    return "\n".join(line for line in printed.splitlines() if re.search(r"baseline|neither|missing", line))


@cache
def shown(symbol: str) -> str:
    """The name of ``symbol`` as its source spells it."""
    return re.sub(r"^void |\(.*", "", ran(["c++filt", symbol], Path.cwd()).strip())


def run(project: Project, edits: Sequence[str], home: Path) -> Iterator[Judged]:
    root = home / project.name
    root.mkdir()
    state = project.state()
    write(root, state)
    ran(["git", "init", "-q"], root)
    tuned = asked(root, state, "pytest", "-q", "--tune", "-p", "no:randomly", "-p", "no:cacheprovider")
    assert "TUNED" in tuned.printed, tuned.printed
    flags = asked(
        root, state, "pytest_compileiq.cli", "flags", "k", "--compiler", command(state)[0], "--output", "k.flags"
    )
    assert flags.code == 0, flags.printed
    controls = (root / "k.flags").read_text().split()
    (root / "build").mkdir()
    before = make(state, root, controls, "build/k.o")
    for edit in edits:
        yield judge(project, edit, root, controls, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=47)
    parser.add_argument("--edits", type=int, default=10, help="of each project (default: %(default)s)")
    parser.add_argument("--only", help="projects whose names begin so")
    parser.add_argument("--list", action="store_true", help="print the edits and make none")
    parser.add_argument("--results", type=Path, metavar="FILE")
    given = parser.parse_args()
    projects = [
        (project, edits)
        for project, edits in drawn(given.seed, given.edits)
        if project.name.startswith(given.only or "")
    ]
    if given.list:
        for project, edits in projects:
            print(f"{project.name} ({', '.join(project.neighbours)}; {project.route}): {'; '.join(edits)}")
        return
    print(describe(), flush=True)
    judged, begun = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="edits-") as home:
        for project, edits in projects:
            for one in run(project, edits, Path(home)):
                judged.append(one)
                for wrong in one.wrong:
                    print(f"{one.project}, {one.edit}: {wrong}", flush=True)
                if given.results:
                    given.results.write_text(json.dumps([asdict(each) for each in judged], indent=1))
    agreeing = sum(not one.wrong for one in judged)
    print(f"{agreeing} of {len(judged)} edits told as they are, {time.monotonic() - begun:.0f} s")
    sys.exit(agreeing != len(judged))


if __name__ == "__main__":
    main()
