"""The open half of the race: who works on an engine may look at it and race on it as often as they like."""

from collections.abc import Iterator
from pathlib import Path

from pytest_compileiq.space import choice, literal
from race_build import DRIVERS, Source
from race_objectives import Objective, gcc_space, options_space, where, with_macros
from race_sources import Distribution

HOME = DRIVERS / "open"
BROTLI = Distribution("brotli==1.1.0", "81de08ac11bcb85841e440c13611c00b67d3bf82698314928d0b676362546724")
ZOPFLI = Distribution("zopfli==0.2.3.post1", "96484dc0f48be1c5d7ae9f38ed1ce41e3675fd506b27c11a6607f14b49101e99")
TIMED = ("join", "shellsort", "csv_fields", "cholesky", "biquad")


def objectives() -> Iterator[Objective]:
    for name in TIMED:
        yield Objective(f"{name}-time", own(name), ("time",), gcc_space())
    yield from third_party()
    yield from mixed()
    yield Objective("bitboard-size-time", own("bitboard"), ("code_bytes", "time"), gcc_space())


def own(name: str) -> Source:
    path = HOME / f"{name}.c"
    return Source(name, path, path)


def third_party() -> Iterator[Objective]:
    brotli, zopfli = BROTLI.folder / "c", ZOPFLI.folder / "zopfli" / "src" / "zopfli"
    headers = f"-I{brotli / 'include'}"
    huffman = Source("brotli_huffman", brotli / "dec" / "huffman.c", flags=(headers,))
    yield Objective("brotli_huffman-size", huffman, ("code_bytes",), options_space())
    splitter = Source("zopfli_blocksplitter", zopfli / "blocksplitter.c")
    yield Objective("zopfli_blocksplitter-size", splitter, ("code_bytes",), options_space())
    transform = _driven("brotli_transform", brotli / "common" / "transform.c", headers)
    yield Objective("brotli_transform-executed", transform, ("executed",), gcc_space())
    katajainen = _driven("zopfli_katajainen", zopfli / "katajainen.c")
    yield Objective("zopfli_katajainen-executed", katajainen, ("executed",), gcc_space())


def mixed() -> Iterator[Objective]:
    """Macros of a source and gcc's options in one space."""
    tiles = {"-DTILE_ROWS=": 8, "-DTILE_COLUMNS=": 32, "-DTILE_INNER=": 16}
    product = with_macros({
        "-DTILE_ROWS=": choice([1, 2, 4, 8, 16, 32], 0.2),
        "-DTILE_COLUMNS=": choice([4, 8, 16, 24, 32, 48, 64], 0.2),
        "-DTILE_INNER=": choice([1, 2, 4, 8, 16, 32, 64], 0.2),
        "-DUNROLL=": choice([1, 2, 4, 8, 16], 0.3),
        "-DROWS_INSIDE": literal("", 0.5),
        "packed": {
            "-DPACKED": literal("", 0), "-DPAD=": choice([1, 4, 8, 16], 0.5), "-DCOPY_STEP=": choice([2, 4, 8], 0.5),
        },
    })  # fmt: skip
    bounded = where(
        product, "a tile is at most 8192 products",
        lambda k: int(k["-DTILE_ROWS="]) * int(k["-DTILE_COLUMNS="]) * int(k["-DTILE_INNER="]) <= 8192, tiles,
    )  # fmt: skip
    yield Objective("tiled_product-mixed-time", own("tiled_product"), ("time",), bounded)
    crc = with_macros({
        "-DSLICES=": choice([1, 2, 4], 0.2),
        "-DBRANCHY": literal("", 0.5),
        "-DHIGH_FIRST": literal("", 0.5),
        "unrolled": {"-DUNROLL=": choice([2, 3, 4, 6, 8], 0.3), "-DFILL_UNROLL=": choice([2, 4, 8], 0.3)},
    })  # fmt: skip
    yield Objective("crc-mixed-executed", own("crc"), ("executed",), crc)


def _driven(name: str, path: Path, *flags: str) -> Source:
    """A source of others with our driver, which reads the headers beside the source."""
    return Source(name, path, HOME / f"{name}_driver.c", (*flags, f"-I{path.parent}"))
