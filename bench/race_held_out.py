"""The held-out half of the race. Who works on an engine does not read this file, nor the sources that it names.

What is here was looked at with random search alone, on seeds from 1000 on.
"""

from collections.abc import Iterator

from pytest_compileiq.space import choice, literal
from race_build import Source
from race_halves import Half
from race_objectives import Objective, gcc_space, options_space, where, with_macros
from race_sources import Distribution

HALF = Half("held_out")
EPHEM = Distribution("ephem==4.2.1", "920cb30369c79fde1088c2060d555ea5f8a50fdc80a9265832fd5bf195cf147f")
HEATSHRINK = Distribution("heatshrink2==0.15.0", "d57904c07414fdfd9ae33182d613bac754b0137479f47bf865ce267157fc6e18")
LZF = Distribution("python-lzf==0.2.6", "47db5c2cb371bdc45f61cca3e12154ca5a7a7fbb8e1a3af8e5c62d14129da1d0")
MINIUPNPC = Distribution("miniupnpc==2.3.3", "ee5e957df828d2fa1cc364e60c583d10439110888f086c9182071c96a374b2ad")
SCRYPT = Distribution("scrypt==0.9.4", "0d212010ba8c2e55475ba6258f30cee4da0432017514d8f6e855b7f1f8c55c77")
TIMED = ("tokens", "modular_power", "ray_boxes", "transcoded", "viterbi", "triangles", "householder")


def objectives() -> Iterator[Objective]:
    for name in TIMED:
        yield Objective(f"{name}-time", HALF.own(name), ("time",), gcc_space())
    yield from third_party()
    yield from mixed()
    yield Objective("particles-size-time", HALF.own("particles"), ("code_bytes", "time"), options_space())
    yield Objective("name_answers-size-executed", HALF.own("name_answers"), ("code_bytes", "executed"), options_space())


def third_party() -> Iterator[Objective]:
    heatshrink, scrypt = HEATSHRINK.folder / "heatshrink2" / "_heatshrink", SCRYPT.folder / "scrypt-1.3.3"
    mixer, headers = scrypt / "lib" / "crypto" / "crypto_scrypt_smix.c", scrypt / "libcperciva" / "util"
    for source in (
        Source("sgp4", EPHEM.folder / "libastro" / "sgp4.c"),
        Source("lzf_compressor", LZF.folder / "lzf_c.c"),
    ):
        yield Objective(f"{source.name}-size", source, ("code_bytes",), options_space())
    for source in (
        HALF.driven("heatshrink_encoder", heatshrink / "heatshrink_encoder.c"),
        HALF.driven("scrypt_mixer", mixer, f"-I{headers}"),
        HALF.driven("minixml", MINIUPNPC.folder / "src" / "minixml.c"),
    ):
        yield Objective(f"{source.name}-executed", source, ("executed",), gcc_space())


def mixed() -> Iterator[Objective]:
    """Macros of a source and gcc's options in one space."""
    codes = with_macros({
        "-DTABLE_BITS=": choice([4, 5, 6, 7, 9, 10, 11, 12], 0.4),
        "-DREAD=": choice([2, 3, 4], 0.5),
        "-DSYMBOLS=": choice([2, 3, 4], 0.5),
        "-DTWO_TABLES": literal("", 0.7),
        "counted": {"-DCOUNTED": literal("", 0), "-DCOUNT_UNROLL=": choice([1, 4, 12], 0)},
        "unrolled": {"-DUNROLL=": choice([2, 3, 4], 0.3), "-DFILL_UNROLL=": choice([2, 4, 8], 0.3)},
    })  # fmt: skip
    bounded = where(
        codes, "what is held fits into 64 bits",
        lambda k: 12 * int(k["-DSYMBOLS="]) + 8 * int(k["-DREAD="]) <= 64, {"-DSYMBOLS=": 1, "-DREAD=": 1},
    )  # fmt: skip
    yield Objective("prefix_codes-mixed-time", HALF.own("prefix_codes"), ("time",), bounded)
    packed = with_macros({
        "-DBLOCK=": choice([8, 16, 32, 64], 0.2),
        "-DWRITTEN=": choice([2, 3, 4], 0.3),
        "-DREAD=": choice([2, 3, 4], 0.3),
        "-DBRANCHY": literal("", 0.5),
        "-DBY_LARGEST": literal("", 0.5),
        "unrolled": {"-DUNROLL=": choice([2, 4, 8], 0.3), "-DREAD_UNROLL=": choice([2, 4, 8], 0.3)},
    })  # fmt: skip
    yield Objective("packed_numbers-mixed-executed", HALF.own("packed_numbers"), ("executed",), packed)
