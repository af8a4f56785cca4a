"""Whether ``acf verify-binary`` tells binaries built with the wrong ACF, other options or none from the right ones.

The kernel of the artifact cuda-attention is built by nvcc in every kind of file, rightly and wrongly; which is which is
known from the bytes of its ``.text`` section, as cuobjdump and pyelftools extract it, and not from the digests.

    python bench/verify_binary.py [--wrong 100] [--right 20]
"""

import argparse
import itertools
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from elftools.elf.elffile import ELFFile

from machine import describe
from pytest_compileiq.ship.verify import Match, verdict, verify_files
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.nvidia.tools import installed

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "tests" / "kernels" / "cuda" / "attention.cu"
COMMON = ["-gencode=arch=compute_90a,code=sm_90a", "-O3"]
KINDS = [["-cubin"], ["-fatbin"], ["-fatbin", "--compress-mode=size"], ["-c"], ["-shared", "-Xcompiler=-fPIC"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wrong", type=int, default=100)
    parser.add_argument("--right", type=int, default=20)
    options = parser.parse_args()
    print(describe())
    store = Store(ROOT / "acf")
    told: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        (right,) = (ROOT / "acf" / "cuda-attention").glob("*.acf")
        proven = text_of(build(directory, ["-cubin"], applying(right)), directory)
        wanted = {"right": options.right, "wrong": options.wrong}
        for words in itertools.chain(itertools.repeat(applying(right), options.right), wrong_words()):
            kind = KINDS[sum(told.values()) % len(KINDS)]
            made = build(directory, kind, words)
            truth = "right" if text_of(made, directory) == proven else "wrong"
            if sum(count for (one, _), count in told.items() if one == truth) == wanted[truth]:
                continue  # other words, same code
            told[truth, verdict(verify_files(store, [made], ("cuda-attention",))).name] += 1
            if sum(told.values()) == sum(wanted.values()):
                break
    for (truth, said), count in sorted(told.items()):
        print(f"{count} {truth}: {said}")
    assert set(told) == {("right", Match.RIGHT.name), ("wrong", Match.DIFFERS.name)}


def wrong_words():
    """Controls that nobody proved: none, another kernel's ACF, and either with options beside it."""
    acfs = [[], *(applying(path) for path in sorted(ROOT.glob("acf/*/sm_90a*.acf")))]
    beside = [[], *([f"--maxrregcount={count}"] for count in range(32, 128, 6)), ["--fmad=false"], ["-Xptxas=-O2"]]
    for options, acf in itertools.product(beside, acfs):
        yield [*acf, *options]


def applying(acf: Path) -> list[str]:
    return [f"-Xptxas=--apply-controls={acf}"]


def build(directory: Path, kind: list[str], words: list[str]) -> Path:
    made = directory / "made"
    nvcc = next(installed("nvcc")).program
    subprocess.run([nvcc, *COMMON, *kind, *words, str(SOURCE), "-o", str(made)], check=True, capture_output=True)
    return made


def text_of(made: Path, directory: Path) -> bytes:
    """The kernel's instructions."""
    for old in directory.glob("*.cubin"):
        old.unlink()
    cuobjdump = next(installed("cuobjdump")).program
    subprocess.run([cuobjdump, "-xelf", "all", str(made)], cwd=directory, check=True, capture_output=True)
    for path in sorted(directory.glob("*.cubin")):
        with path.open("rb") as stream:
            if section := ELFFile(stream).get_section_by_name(".text.attention"):
                return section.data()
    raise SystemExit(f"cuobjdump finds no kernel in {made}")


if __name__ == "__main__":
    main()
