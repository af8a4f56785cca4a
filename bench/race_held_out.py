"""The held-out half of the race. Who works on an engine does not read this file, nor the sources that it names.

What is here was looked at with random search alone, on seeds from 1000 on.
"""

from collections.abc import Iterator
from pathlib import Path

from pytest_compileiq.space import choice, literal
from race_build import DRIVERS, Source
from race_objectives import Objective, gcc_space, options_space, where, with_macros
from race_sources import Distribution

HOME = DRIVERS / "held_out"
CRYPTO = Distribution("pycryptodome==3.21.0", "f7787e0d469bdae763b876174cf2e6c0f7be79808af26b1da96f1a64bcf47297")
LZFSE = Distribution("pyliblzfse==0.4.1", "bb0b899b3830c02fdf3dbde48ea59611833f366fef836e5c32cf8145134b7d3d")
WEBRTCVAD = Distribution("webrtcvad==2.0.10", "f1bed2fb25b63fb7b1a55d64090c993c9c9167b28485ae0bcdd81cf6ede96aea")
TIMED = ("recent", "edit_distance", "matches", "fourier", "heap_paths")


def objectives() -> Iterator[Objective]:
    for name in TIMED:
        yield Objective(f"{name}-time", own(name), ("time",), gcc_space())
    yield from third_party()
    yield from mixed()
    yield Objective("moments-size-executed", own("moments"), ("code_bytes", "executed"), gcc_space())


def own(name: str) -> Source:
    path = HOME / f"{name}.c"
    return Source(name, path, path)


def third_party() -> Iterator[Objective]:
    lzfse, crypto, cbits = LZFSE.folder / "lzfse" / "src", CRYPTO.folder / "src", WEBRTCVAD.folder / "cbits"
    settings = ("-DHAVE_STDINT_H", "-DHAVE_POSIX_MEMALIGN")
    lzvn = Source("lzvn_decoder", lzfse / "lzvn_decode_base.c", flags=("-DNDEBUG",))
    yield Objective("lzvn_decoder-size", lzvn, ("code_bytes",), options_space())
    detector = cbits / "webrtc" / "common_audio" / "vad" / "vad_core.c"
    voice = Source("voice", detector, flags=("-DWEBRTC_POSIX", f"-I{cbits}"))
    yield Objective("voice-size", voice, ("code_bytes",), options_space())
    poly1305 = _driven("poly1305", crypto / "poly1305.c", *settings)
    yield Objective("poly1305-executed", poly1305, ("executed",), gcc_space())
    chacha = _driven("chacha", crypto / "chacha20.c", *settings)
    yield Objective("chacha-executed", chacha, ("executed",), gcc_space())


def mixed() -> Iterator[Objective]:
    """Macros of a source and gcc's options in one space."""
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
    yield Objective("blurred-mixed-time", own("blurred"), ("time",), bounded)
    sieve = with_macros({
        "-DSEGMENT=": choice([32, 64, 96, 128, 256], 0.2),
        "-DPACKED_BITS": literal("", 0.5),
        "-DBRANCHLESS": literal("", 0.5),
        "unrolled": {"-DUNROLL=": choice([2, 4, 8], 0.3), "-DCOUNT_UNROLL=": choice([2, 4, 8], 0.3)},
    })  # fmt: skip
    yield Objective("sieve-mixed-executed", own("sieve"), ("executed",), sieve)


def _driven(name: str, path: Path, *flags: str) -> Source:
    """A source of others with our driver, which reads the headers beside the source."""
    return Source(name, path, HOME / f"{name}_driver.c", (*flags, f"-I{path.parent}"))
