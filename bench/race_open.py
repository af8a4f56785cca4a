"""The open half of the race: who works on an engine may look at it and race on it as often as they like.

Its second twelve were held out until an engine had been raced on them.
"""

from collections.abc import Iterator

from pytest_compileiq.space import choice, literal
from race_build import Source
from race_halves import Half
from race_objectives import Objective, gcc_space, options_space, where, with_macros
from race_sources import Distribution

HALF = Half("open")
BROTLI = Distribution("brotli==1.1.0", "81de08ac11bcb85841e440c13611c00b67d3bf82698314928d0b676362546724")
ZOPFLI = Distribution("zopfli==0.2.3.post1", "96484dc0f48be1c5d7ae9f38ed1ce41e3675fd506b27c11a6607f14b49101e99")
CRYPTO = Distribution("pycryptodome==3.21.0", "f7787e0d469bdae763b876174cf2e6c0f7be79808af26b1da96f1a64bcf47297")
LZFSE = Distribution("pyliblzfse==0.4.1", "bb0b899b3830c02fdf3dbde48ea59611833f366fef836e5c32cf8145134b7d3d")
WEBRTCVAD = Distribution("webrtcvad==2.0.10", "f1bed2fb25b63fb7b1a55d64090c993c9c9167b28485ae0bcdd81cf6ede96aea")
TIMED = (
    "join", "shellsort", "csv_fields", "cholesky", "biquad",
    "recent", "edit_distance", "matches", "fourier", "heap_paths",
)  # fmt: skip


def objectives() -> Iterator[Objective]:
    for name in TIMED:
        yield Objective(f"{name}-time", HALF.own(name), ("time",), gcc_space())
    yield from sizes_of_others()
    yield from instructions_of_others()
    yield from mixed_times()
    yield from mixed_instructions()
    yield Objective("bitboard-size-time", HALF.own("bitboard"), ("code_bytes", "time"), gcc_space())
    yield Objective("moments-size-executed", HALF.own("moments"), ("code_bytes", "executed"), gcc_space())


def sizes_of_others() -> Iterator[Objective]:
    brotli, lzfse, cbits = BROTLI.folder / "c", LZFSE.folder / "lzfse" / "src", WEBRTCVAD.folder / "cbits"
    detector = cbits / "webrtc" / "common_audio" / "vad" / "vad_core.c"
    for source in (
        Source("brotli_huffman", brotli / "dec" / "huffman.c", flags=(f"-I{brotli / 'include'}",)),
        Source("zopfli_blocksplitter", ZOPFLI.folder / "zopfli" / "src" / "zopfli" / "blocksplitter.c"),
        Source("lzvn_decoder", lzfse / "lzvn_decode_base.c", flags=("-DNDEBUG",)),
        Source("voice", detector, flags=("-DWEBRTC_POSIX", f"-I{cbits}")),
    ):
        yield Objective(f"{source.name}-size", source, ("code_bytes",), options_space())


def instructions_of_others() -> Iterator[Objective]:
    brotli, zopfli, crypto = BROTLI.folder / "c", ZOPFLI.folder / "zopfli" / "src" / "zopfli", CRYPTO.folder / "src"
    settings = ("-DHAVE_STDINT_H", "-DHAVE_POSIX_MEMALIGN")
    for source in (
        HALF.driven("brotli_transform", brotli / "common" / "transform.c", f"-I{brotli / 'include'}"),
        HALF.driven("zopfli_katajainen", zopfli / "katajainen.c"),
        HALF.driven("poly1305", crypto / "poly1305.c", *settings),
        HALF.driven("chacha", crypto / "chacha20.c", *settings),
    ):
        yield Objective(f"{source.name}-executed", source, ("executed",), gcc_space())


def mixed_times() -> Iterator[Objective]:
    """Macros of a source, bounded, and gcc's options in one space."""
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
    yield Objective("tiled_product-mixed-time", HALF.own("tiled_product"), ("time",), bounded)
    blur = with_macros({
        "-DSTRIP_ROWS=": choice([1, 2, 4, 8, 16, 32], 0.2),
        "-DSTRIP_COLUMNS=": choice([8, 16, 32, 48, 64, 96], 0.2),
        "-DNARROW": literal("", 0.5),
        "-DCOLUMNS_OUTSIDE": literal("", 0.5),
        "unrolled": {"-DUNROLL_TAPS=": choice([2, 4, 7, 8], 0.3), "-DUNROLL_ROWS=": choice([2, 3, 4, 8], 0.3)},
        "-DGAP=": choice([1, 8, 16], 0.6),
    })  # fmt: skip
    strips = {"-DSTRIP_ROWS=": 16, "-DSTRIP_COLUMNS=": 64}
    bounded = where(
        blur, "a strip is at most 1024 pixels",
        lambda k: int(k["-DSTRIP_ROWS="]) * int(k["-DSTRIP_COLUMNS="]) <= 1024, strips,
    )  # fmt: skip
    yield Objective("blurred-mixed-time", HALF.own("blurred"), ("time",), bounded)


def mixed_instructions() -> Iterator[Objective]:
    """Macros of a source and gcc's options in one space."""
    crc = with_macros({
        "-DSLICES=": choice([1, 2, 4], 0.2),
        "-DBRANCHY": literal("", 0.5),
        "-DHIGH_FIRST": literal("", 0.5),
        "unrolled": {"-DUNROLL=": choice([2, 3, 4, 6, 8], 0.3), "-DFILL_UNROLL=": choice([2, 4, 8], 0.3)},
    })  # fmt: skip
    yield Objective("crc-mixed-executed", HALF.own("crc"), ("executed",), crc)
    sieve = with_macros({
        "-DSEGMENT=": choice([32, 64, 96, 128, 256], 0.2),
        "-DPACKED_BITS": literal("", 0.5),
        "-DBRANCHLESS": literal("", 0.5),
        "unrolled": {"-DUNROLL=": choice([2, 4, 8], 0.3), "-DCOUNT_UNROLL=": choice([2, 4, 8], 0.3)},
    })  # fmt: skip
    yield Objective("sieve-mixed-executed", HALF.own("sieve"), ("executed",), sieve)
