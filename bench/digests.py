"""Whether the digests of entries are equal exactly where their code, reached data and launch facts are.

1. 56 cubins, of 14 files for 4 architectures, by every ptxas that is given: ``hot`` and all else against the first.
2. 40 files: 5 kernels, beside which 8 edits are made, for each of which the edit says whether it touches data that the
   kernel reaches. A kernel that indexes its constants by register is told apart: there the whole bank is reached.

The truth is taken from elsewhere: the bytes of ``.text`` by pyelftools, launch facts from what ``ptxas -v`` prints.

    python bench/digests.py [PTXAS ...]      # e.g. of nvidia-cuda-nvcc==13.4.* in an environment of its own
"""

import argparse
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from machine import describe
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.toolchains.nvidia.builder import read_ptxas_log
from pytest_compileiq.toolchains.nvidia.tools import installed

ROOT = Path(__file__).parents[1]
FILES = ["tests/kernels/cuda/*.cu", "bench/gpu_kernels/*/*.cu", "examples/builds/cuda/*.cu"]
ARCHITECTURES = ["sm_80", "sm_90a", "sm_100a", "sm_120a"]
HEAD = '#include <cstdio>\n#define KERNEL extern "C" __global__ void\n'
HOTS = {
    "nothing": """KERNEL hot(float *y, const float *x, int n) {
        float s = 0;
        for (int i = 0; i < n; i++) s += x[i] * x[n - 1 - i];
        y[threadIdx.x] = s;
    }""",
    "constant": """__constant__ float w[4] = {1, 2, 3, 4};
    KERNEL hot(float *y) { y[threadIdx.x] = y[threadIdx.x] * w[1] + w[3]; }""",
    "global": """__device__ float g[4] = {1, 2, 3, 4};
    KERNEL hot(float *y) { y[threadIdx.x] *= g[threadIdx.x & 3]; }""",
    "printf": """KERNEL hot(float *y) { printf("hot %f", y[threadIdx.x]); }""",
    "called": """__device__ __noinline__ float third(float x) { __syncthreads(); return x / 3 + sinf(x); }
    KERNEL hot(float *y) {
        __shared__ float s[32];
        s[threadIdx.x] = third(y[0]);
        __syncthreads();
        y[threadIdx.x] = s[31 - threadIdx.x];
    }""",
}
INDEXED = """__constant__ float w[4] = {1, 2, 3, 4};
    KERNEL hot(float *y) { y[threadIdx.x] *= w[threadIdx.x & 3]; }"""
SWITCH = """KERNEL hot(float *y, int n) {
        switch (n) {
            case 0: y[0] = 1; break;
            case 1: y[1] = sinf(y[0]); break;
            case 2: y[2] /= y[3]; break;
            case 3: y[4] = expf(y[1]); break;
            case 4: y[9] = 1; __syncthreads();
        }
    }"""
OTHER = "KERNEL other(float *y, int n) { y[threadIdx.x] *= n; }"
CONSTANT = "__constant__ float v[3] = {7, 8, 9};\nKERNEL other(float *y) { y[0] *= v[1]; }"
GLOBAL = "__device__ int count = 5;\nKERNEL other(float *y) { y[0] *= atomicAdd(&count, 1); }"
PRINTF = 'KERNEL other(float *y) { printf("other %f", y[0]); }'
CODE = "KERNEL other(float *y, int n) { y[threadIdx.x] += n / 7; }"
THIRD = "KERNEL third(int *y) { y[threadIdx.x] += 3; }"


@dataclass(frozen=True)
class Edit:
    """How a file is written: ``order`` of its kernels, and the kernels whose data ``edited`` changes."""

    order: tuple[str, ...] = ("hot", OTHER)
    flags: tuple[str, ...] = ()
    edited: tuple[str, str] = ("", "")
    touches: frozenset[str] = frozenset()


EDITS = {
    "kernel added": Edit(("hot", OTHER, THIRD)),
    "moved": Edit((OTHER, "hot")),
    "-lineinfo": Edit(flags=("-lineinfo",)),
    "neighbour's constant": Edit(("hot", CONSTANT)),
    "neighbour's global": Edit(("hot", GLOBAL)),
    "neighbour's printf": Edit(("hot", PRINTF)),
    "neighbour's code": Edit(("hot", CODE)),
    "own data": Edit(edited=("3, 4}", "3, 5}"), touches=frozenset({"constant", "global", "indexed"})),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ptxas", nargs="*", type=Path)
    given = parser.parse_args().ptxas
    print(describe())
    programs = [Path(next(installed("ptxas")).program), *given]
    nvcc = Path(next(installed("nvcc")).program)
    with tempfile.TemporaryDirectory() as home:
        wrong = across(programs, nvcc, Path(home)) + edited(programs[0], nvcc, Path(home))
    assert not wrong, f"{wrong} entries told otherwise than they are"


def across(programs: list[Path], nvcc: Path, home: Path) -> int:
    """Compare the cubins of every ptxas with those of the first."""
    told: Counter[tuple[str, str, str]] = Counter()
    cubins = 0
    for text in sources():
        for architecture in ARCHITECTURES:
            ptx = ptx_of(text, architecture, nvcc, home)
            first, *rest = [facts_of(ptx, architecture, program, home) for program in programs]
            cubins += 1
            for program, other in zip(programs[1:], rest, strict=True):
                for entry, (truth, digest) in other.items():
                    same, equal = first[entry][0] == truth, first[entry][1] == digest
                    told[str(program), "same" if same else "other", "equal" if equal else "unequal"] += 1
    print(f"{cubins} cubins")
    for (program, truth, digest), count in sorted(told.items()):
        print(f"  {program}: {count} entries of {truth} code, digests {digest}")
    return sum(count for (_, truth, digest), count in told.items() if (truth == "same") != (digest == "equal"))


def edited(ptxas: Path, nvcc: Path, home: Path) -> int:
    """Compare ``hot`` before and after every edit beside it."""
    wrong = 0
    for name, hot in {**HOTS, "indexed": INDEXED}.items():
        before = hot_of(Edit(), hot, ptxas, nvcc, home)
        for what, edit in EDITS.items():
            truth, digest = hot_of(edit, hot, ptxas, nvcc, home)
            same, equal = truth == before[0] and name not in edit.touches, digest == before[1]
            if same != equal:
                print(f"  hot with {name}, {what}: {'same' if same else 'other'} code, digests {'=' if equal else '≠'}")
                wrong += name != "indexed" or equal
    print(f"{len(HOTS) * len(EDITS)} files, {wrong} told otherwise than they are")
    return wrong


def sources() -> Iterator[str]:
    """14 files."""
    for pattern in FILES:
        for path in sorted(ROOT.glob(pattern)):
            yield path.read_text()
    for hot in (*HOTS.values(), SWITCH):
        yield f"{HEAD}{hot}\n{OTHER}\n"


def hot_of(edit: Edit, hot: str, ptxas: Path, nvcc: Path, home: Path) -> tuple[object, str]:
    kernels = (hot.replace(*edit.edited) if kernel == "hot" and edit.touches else kernel for kernel in edit.order)
    text = HEAD + "\n".join(hot if kernel == "hot" else kernel for kernel in kernels)
    ptx = ptx_of(text, "sm_90a", nvcc, home, *edit.flags)
    return facts_of(ptx, "sm_90a", ptxas, home, *edit.flags)["hot"]


def ptx_of(text: str, architecture: str, nvcc: Path, home: Path, *flags: str) -> Path:
    (home / "k.cu").write_text(text)
    words = [nvcc, "-ptx", "-w", "-O3", f"-arch={architecture}", *flags, "-o", home / "k.ptx", home / "k.cu"]
    subprocess.run(words, check=True, capture_output=True)
    return home / "k.ptx"


def facts_of(ptx: Path, architecture: str, ptxas: Path, home: Path, *flags: str) -> dict[str, tuple[object, str]]:
    """Entry → its code and launch facts, and its digest."""
    cubin = home / "k.cubin"
    words = [ptxas, "-v", f"-arch={architecture}", *flags, "-o", cubin, ptx]
    printed = read_ptxas_log(subprocess.run(words, check=True, capture_output=True, text=True).stderr)
    read = read_cubin(cubin)
    with cubin.open("rb") as stream:
        elf = ELFFile(stream)
        texts = {name: elf.get_section_by_name(f".text.{name}").data() for name in read.symbols.values()}
    facts = {}
    for key, name in read.symbols.items():
        launch = printed[name, architecture]
        held = {metric: launch[metric] for metric in ("registers", "barriers", "stack_bytes", "shared_bytes")}
        assert held.items() <= read.entries[key].metrics.items(), f"{name}: {held}, {read.entries[key].metrics}"
        facts[key] = ((texts[name], held), read.entries[key].sha256)
    return facts


if __name__ == "__main__":
    main()
