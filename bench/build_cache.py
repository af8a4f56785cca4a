"""Random schedules against the build cache: what it gives is always what a rebuild gives.

A schedule edits, reverts, renames and shadows files, moves directories, runs beside other runs, kills, damages and
trims, branches by pragma and sets variables. After each step the project is built through the cache and built anew. A
toy compiler in this process has an include path like a real one's; ``--gcc`` and ``--clang`` do it with these, with
precompiled headers and search directories of the environment as well, ``--nvcc`` with nvcc, and ``--triton`` with
Triton, whose headers are modules.

    python bench/build_cache.py [--schedules 10000] [--gcc 50] [--clang 50] [--nvcc 20] [--triton 20] [--seed 0]
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from pytest_compileiq.benchmark.cached_builds import CachedBuild, CachedBuilds
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import BuildResult, CodeDigest, ControlsFile
from pytest_compileiq.rules.build_key import Inputs, looked_for
from pytest_compileiq.store.build_cache import BuildCache
from pytest_compileiq.system.seen_files import SeenFiles
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import resolve
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.nvidia.markers import Nvcc
from pytest_compileiq.toolchains.nvidia.nvcc import resolve as resolve_nvcc
from pytest_compileiq.toolchains.triton.builder import resolve as resolve_triton
from pytest_compileiq.toolchains.triton.marker import Triton

STEPS = 10
DIRECTORIES = ("first", "second", "third")
HEADERS = ("a.h", "b.h", "c.h")
VARIABLES = ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "PTXAS_FLAGS", "NVVM_FLAGS")
Mutation = Callable[[], None]


class Killed(BaseException):
    """Ends a run where a real one would die."""


def through(
    builds: CachedBuilds, builder: Any, out_dir: Path, make: Callable[[], BuildResult]
) -> tuple[BuildResult, Mapping[str, str] | None]:
    """The baseline from the cache, or else as ``make`` makes it, and its sources where they are known with it."""
    found = builds.find(builder, None, out_dir)
    if isinstance(found, CachedBuild):
        return found.put(), found.entry.sources
    made = builds.make(builder, None, found, make)
    return made.built, made.sources


@dataclass
class ToyBuilder:
    """A compiler whose machine code is the text that it reads; ``during`` is called in the midst of a build."""

    is_modelled, counts = True, False

    root: Path
    during: Mutation = lambda: None
    compiler: Any = field(default_factory=lambda: SimpleNamespace(name="toy"))

    def cacheable(self, controls: ControlsFile | None) -> "ToyBuilder":
        return self

    def also_loaded(self, _built: BuildResult) -> Sequence[Path]:
        return ()

    def is_of(self, _built: BuildResult) -> bool:
        return True

    def question(self) -> Mapping[str, Sequence[str]]:
        return {"source": ["kernel.c"], "directory": [str(self.root)]}

    def inputs(self) -> tuple[Inputs, Inputs]:
        read, names = {str(self.root / "kernel.c")}, set()
        for path, text in self._read().items():
            read.add(path)
            names |= set(included(text))
        looked = looked_for(names, [str(self.root / name) for name in DIRECTORIES], os.path.lexists)
        return looked | Inputs(frozenset(read)), Inputs()

    def sources(self) -> Mapping[str, str]:
        return {
            os.path.relpath(path, self.root): hashlib.sha256(text.encode()).hexdigest()
            for path, text in self._read().items()
        }

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        out_dir.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{Path(path).name}:{text}" for path, text in self._read(self.during).items())
        path = out_dir / "built"
        path.write_text(text)
        return BuildResult(path, {"kernel": CodeDigest(hashlib.sha256(text.encode()).hexdigest(), {})}, {}, "", 0.0)

    build_together = build

    def _read(self, during: Mutation = lambda: None) -> dict[str, str]:
        """Path → text of what is read, in order; the same name is read once."""
        texts, waiting = dict[str, str](), ["kernel.c"]
        while waiting:
            name = waiting.pop(0)
            places = [self.root / "kernel.c"] if name == "kernel.c" else [self.root / at / name for at in DIRECTORIES]
            path = next((place for place in places if place.is_file()), None)
            if path is None:
                raise BuildError(f"no {name}", kind="compile")
            if str(path) not in texts:
                texts[str(path)] = path.read_text()
                waiting += included(texts[str(path)])
                during()
        return texts


def included(text: str) -> list[str]:
    return [line.partition(" ")[2] for line in text.splitlines() if line.startswith("include ")]


@dataclass
class Schedule:
    """One project, and what happens to it.

    Attributes:
        builder: makes a builder for the project as it is.
        include: how a header is included.
        value: what a header holds, by a number.
        kernel: what the source holds, by a number.
        say: counts hits and misses.
    """

    root: Path
    rng: Random
    builder: Callable[[], Any]
    include: Callable[[str], str]
    say: Counter[str]
    more_steps: Sequence[Callable[["Schedule"], None]] = ()
    value: Callable[[int], str] = "int v{};".format
    kernel: Callable[[int], str] = "int kernel(void) {{ return {}; }}".format
    source_name: str = "kernel.c"
    headers: Sequence[str] = HEADERS
    former: list[tuple[Path, str]] = field(default_factory=list)
    written: int = 0

    def run(self) -> None:
        """Play the schedule.

        Raises:
            AssertionError: the cache gives what no rebuild gives.
        """
        for directory in DIRECTORIES:
            (self.root / directory).mkdir()
        for name in self.headers:
            self.write(self.root / self.rng.choice(DIRECTORIES) / name, self.text())
        self.write(self.root / self.source_name, self.source())
        happened = []
        for number in range(STEPS):
            step = self.rng.choice([*STEPS_OF_ALL, *self.more_steps])
            happened.append(step.__name__)
            step(self)
            self.check(number, happened)

    def check(self, number: int, happened: Sequence[str]) -> None:
        """Build through the cache and anew; and perhaps first through the cache while something changes."""
        if self.rng.random() < 0.2:
            step = self.rng.choice(STEPS_OF_ALL)
            happened = [*happened, f"{step.__name__} during a build"]
            self.beside(number, lambda: step(self))
        given, was_cached = self.cached(number)
        expected = self.fresh(number)
        assert given == expected, f"{given} from the cache ({was_cached}), {expected} anew, after {happened}"
        self.say["from the cache" if was_cached else "refused" if given == "refused" else "built"] += 1

    def beside(self, number: int, mutation: Mutation) -> None:
        """A run during whose build something changes once, and which may die of it; what it gives may be either."""
        left = [self.rng.randrange(3)]
        dies = self.rng.random() < 0.2

        def during() -> None:
            left[0] -= 1
            if left[0] == -1:
                mutation()
                if dies:
                    raise Killed

        builder = self.builder()
        if hasattr(builder, "during"):
            builder.during = during
        builds = self.builds()

        def make() -> BuildResult:
            during()
            built = builder.build_together(None, self.out("beside", number), timeout_s=60)
            during()
            return built

        try:
            through(builds, builder, self.out("beside", number), make)
        except (BuildError, Killed, OSError):
            return

    def builds(self) -> CachedBuilds:
        return CachedBuilds(BuildCache(self.root), seen=SeenFiles(settled_ns=0))

    def cached(self, number: int) -> tuple[object, bool]:
        builder, out_dir = self.builder(), self.out("cached", number)
        try:
            built, sources = through(
                self.builds(), builder, out_dir, lambda: builder.build_together(None, out_dir, timeout_s=60)
            )
            read = dict(sources if sources is not None else builder.sources())
        except BuildError:
            return "refused", False
        assert built.path.is_file()
        return (built.code, read), bool(built.cached)

    def fresh(self, number: int) -> object:
        builder = self.builder()
        try:
            built = builder.build(None, self.out("fresh", number), timeout_s=60)
            return built.code, dict(builder.sources())
        except BuildError:  # a precompiled header may include what is not there any more
            return "refused"

    def out(self, kind: str, number: int) -> Path:
        return self.root.parent / f"{self.root.name}-{kind}-{number}"

    # ── what can be written ──────────────────────────────────────────────────────────────────────────────────────

    def write(self, path: Path, text: str) -> None:
        """Write a file whose times are new: each change has a tick of its own, as a change by a person has."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() and not os.path.exists(path):  # noqa: PTH110 - links may lead in a circle
            path.unlink()
        path.write_text(text)
        self.former.append((path, text))
        self.touch(path, path.parent)

    def touch(self, *paths: Path) -> None:
        for path in paths:
            self.written += 1
            os.utime(path, ns=(0, 1_600_000_000_000_000_001 + 1000 * self.written))

    def text(self) -> str:
        others = [name for name in self.headers if self.rng.random() < 0.3]
        return "".join(f"{self.include(name)}\n" for name in others[:1]) + f"{self.value(self.rng.randrange(4))}\n"

    def source(self) -> str:
        return "".join(f"{self.include(name)}\n" for name in self.headers if self.rng.random() < 0.7) + (
            f"{self.kernel(self.rng.randrange(4))}\n"
        )

    def any_header(self) -> Path:
        return self.root / self.rng.choice(DIRECTORIES) / self.rng.choice(self.headers)


def edits_a_header(on: Schedule) -> None:
    on.write(on.any_header(), on.text())


def edits_the_source(on: Schedule) -> None:
    on.write(on.root / on.source_name, on.source())


def reverts(on: Schedule) -> None:
    path, text = on.rng.choice(on.former)
    on.write(path, text)


def renames(on: Schedule) -> None:
    path, other = on.any_header(), on.any_header()
    if path.is_file():
        other.parent.mkdir(exist_ok=True)
        path.replace(other)
        on.touch(path.parent, other.parent)


def deletes(on: Schedule) -> None:
    path = on.any_header()
    if path.is_file():
        path.unlink()
        on.touch(path.parent)


def swaps_directories(on: Schedule) -> None:
    one, other = (on.root / name for name in on.rng.sample(DIRECTORIES, 2))
    kept = on.root / "kept"
    for old, new in ((one, kept), (other, one), (kept, other)):
        if old.exists():
            old.rename(new)
    on.touch(on.root)


def links(on: Schedule) -> None:
    path, other = on.any_header(), on.any_header()
    if other.is_file() and not os.path.lexists(path):
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(other)
        on.touch(path.parent)


def damages_an_entry(on: Schedule) -> None:
    entries = BuildCache(on.root).stored()
    if not entries:
        return
    path = on.rng.choice(entries).path
    data = bytearray(path.read_bytes())
    place = on.rng.randrange(len(data))
    if on.rng.random() < 0.5:
        del data[place:]
    else:
        data[place] ^= 1 << on.rng.randrange(8)
    path.write_bytes(data)


def exchanges_entries(on: Schedule) -> None:
    """Someone copies an entry to where another belongs."""
    entries = BuildCache(on.root).stored()
    if len(entries) > 1:
        one, other = on.rng.sample(entries, 2)
        shutil.copy(one.path, other.path)


def trims(on: Schedule) -> None:
    BuildCache(on.root).trim(on.rng.choice((0, 2000, 20_000)))


def happens_nothing(on: Schedule) -> None:
    return


STEPS_OF_ALL = (
    edits_a_header, edits_the_source, reverts, reverts, renames, deletes, swaps_directories, links, damages_an_entry,
    exchanges_entries, trims, happens_nothing, happens_nothing,
)  # fmt: skip


def precompiles(on: Schedule) -> None:
    """A header is precompiled by gcc with another content than it has then, as after an edit without a rebuild."""
    path = on.any_header()
    if path.is_file():
        text = path.read_text()
        path.write_text(f"int precompiled{on.rng.randrange(3)}(void) {{ return 1; }}\n")
        subprocess.run(
            ["gcc", "-O1", "-fPIC", "-fno-gnu-unique", "-Werror=date-time", path],
            check=False, capture_output=True,
        )  # fmt: skip
        on.write(path, text)


def adds_a_directory_to_the_environment(on: Schedule) -> None:
    if os.environ.pop("CPATH", None) is None:
        os.environ["CPATH"] = str(on.root / on.rng.choice(DIRECTORIES))


def assembles(on: Schedule) -> None:
    """Assembly that reads a file, by a directive in pieces, or reads none; or the file changes alone."""
    if on.rng.random() < 0.5:
        statement = on.rng.choice(('".inc" "lude \\"data.s\\""', '"nop"'))
        text = f'int assembled(int x) {{ __asm__({statement} : "+a"(x)); return x; }}\n'
        on.write(*on.rng.choice(((on.root / on.source_name, on.source() + text), (on.any_header(), text))))
    on.write(on.root / "data.s", f"addl ${on.rng.randrange(4)}, %eax\n")


def branches_by_pragma(on: Schedule) -> None:
    """A header chooses what is included by a macro that gcc sets when it compiles, and not when it preprocesses."""
    name = on.rng.choice(on.headers)
    pragma = on.rng.choice(('#pragma GCC target("avx2")', '_Pragma("GCC target(\\"avx2\\")")', "#pragma once"))
    chosen = f"#ifdef __AVX2__\n{on.include(name)}\n#endif"
    on.write(on.any_header(), f"{pragma}\n{chosen}\n{on.value(on.rng.randrange(4))}\n")


def sets_a_variable(on: Schedule) -> None:
    """One that nvcc reads, or one that it reads elsewhere and no build sees."""
    name = on.rng.choice(VARIABLES)
    if os.environ.pop(name, None) is None:
        os.environ[name] = on.rng.choice(("-Xptxas=-O1", "-Xptxas=-O0", "-DMORE"))


def play_toy(seed: int, say: Counter[str], folder: Path) -> None:
    """One schedule with the toy compiler."""
    root = folder / f"toy{seed}"
    root.mkdir()
    Schedule(root, Random(seed), lambda: ToyBuilder(root), lambda name: f"include {name}", say).run()


def play_cc(seed: int, say: Counter[str], folder: Path, *, compiler: str) -> None:
    """One schedule with ``gcc`` or ``clang``."""
    root = folder / f"{compiler}{seed}"
    root.mkdir()
    rng = Random(seed)
    place = Place(root, root)
    toolchain = Cc("kernel.c", flags="-O1 -Ifirst -iquote second -isystem third", compiler=compiler)
    more = (precompiles, adds_a_directory_to_the_environment, *[assembles] * 4, *[branches_by_pragma] * 2)

    def include(name: str) -> str:
        spelled = rng.choice((f'"{name}"', f"<{name}>"))
        directive = f"#include {spelled}"
        by = rng.choice(("__has_include", "ASKS"))
        asked = f"#define ASKS __has_include\n#if {by}({spelled})\n{directive}\n#endif"
        guard = f"IN_{name.replace('.', '_')}"
        return f"#ifndef {guard}\n#define {guard}\n{rng.choice((directive, asked))}\n#endif"

    before = os.environ.pop("CPATH", None)
    try:
        Schedule(root, rng, lambda: resolve(toolchain, place), include, say, more).run()
    finally:
        os.environ.pop("CPATH", None)
        if before is not None:
            os.environ["CPATH"] = before


def play_nvcc(seed: int, say: Counter[str], folder: Path) -> None:
    """One schedule with nvcc, for one architecture or two, with host code or without; it includes by macros too."""
    root = folder / f"nvcc{seed}"
    root.mkdir()
    (root / "k.cu").write_text('#define V 9\n#define ASKS(x) __has_include(x)\n#include "kernel.c"\n')
    rng = Random(seed)
    arch = rng.choice(("sm_90a", ["sm_80", "sm_90a"]))
    output = rng.choice(("cubin", "library"))
    toolchain = Nvcc("k.cu", arch=arch, output=output, flags="-O1 -Ifirst -Isecond -isystem third")

    def include(name: str) -> str:
        spelled = rng.choice((f'"{name}"', f"<{name}>"))
        directive = rng.choice((f"#include {spelled}", f"#define NAME {spelled}\n#include NAME\n#undef NAME"))
        asked = f"#if ASKS({spelled})\n{directive}\n#endif"
        of_one = f"#if __CUDA_ARCH__ >= 900\n{directive}\n#endif"
        guard = f"IN_{name.replace('.', '_')}"
        return f"#ifndef {guard}\n#define {guard}\n{rng.choice((directive, asked, of_one))}\n#endif"

    kernel = 'extern "C" __global__ void kernel(int *x) {{ *x = 10 * V + {0}; }} int host() {{ return 10 * V + {0}; }}'
    before = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
    try:
        Schedule(
            root, rng, lambda: resolve_nvcc(toolchain, Place(root, root)), include, say, [sets_a_variable] * 3,
            value="#undef V\n#define V {}".format, kernel=kernel.format,
        ).run()  # fmt: skip
    finally:
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(before)


def play_triton(seed: int, say: Counter[str], folder: Path) -> None:
    """One schedule with Triton, for one architecture or two; modules may be absent, and import each other."""
    root = folder / f"triton{seed}"
    root.mkdir()
    rng = Random(seed)
    arch = rng.choice(("sm_90a", ["sm_80", "sm_90a"]))
    toolchain = Triton("kernel.py::kernel", signature={"out": "*i32:16"}, arch=arch)
    head = "import triton\nimport triton.language as tl\n"
    known = "try:\n    U\nexcept NameError:\n    U = tl.constexpr(9)\n"

    def include(name: str) -> str:
        taken = f"from {rng.choice(DIRECTORIES)}.{name.removesuffix('.py')} import V as U"
        perhaps = f"try:\n    {taken}\nexcept ImportError:\n    U = tl.constexpr(8)"
        return head + rng.choice((taken, perhaps, perhaps, perhaps, perhaps))

    kernel = "@triton.jit\ndef kernel(out):\n    tl.store(out, 10 * U + {})"
    Schedule(
        root, rng, lambda: resolve_triton(toolchain, Place(root, root)), include, say,
        value=f"{head}{known}V = tl.constexpr(10 * U.value % 1000 + {{}})".format,
        kernel=f"{head}{known}{kernel}".format, source_name="kernel.py", headers=("a.py", "b.py", "c.py"),
    ).run()  # fmt: skip


def main() -> None:
    from machine import describe

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=10_000, help="with the toy compiler (default: %(default)s)")
    parser.add_argument("--gcc", type=int, default=0, help="with gcc (default: %(default)s)")
    parser.add_argument("--clang", type=int, default=0, help="with clang (default: %(default)s)")
    parser.add_argument("--nvcc", type=int, default=0, help="with nvcc (default: %(default)s)")
    parser.add_argument("--triton", type=int, default=0, help="with Triton (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first (default: %(default)s)")
    asked = parser.parse_args()
    print(describe())
    plays = {
        "toy": (play_toy, asked.schedules),
        "gcc": (partial(play_cc, compiler="gcc"), asked.gcc),
        "clang": (partial(play_cc, compiler="clang"), asked.clang),
        "nvcc": (play_nvcc, asked.nvcc),
        "triton": (play_triton, asked.triton),
    }
    for name, (play, count) in plays.items():
        say, wrong = Counter[str](), 0
        for seed in range(asked.seed, asked.seed + count):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    play(seed, say, Path(folder))
                except AssertionError as error:
                    wrong += 1
                    print(f"{name} {seed}: {error}")
        if count:
            print(f"{name}: {count} schedules of {STEPS} steps, {wrong} wrong; {dict(say)}")


if __name__ == "__main__":
    main()
