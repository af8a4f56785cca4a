"""Libraries that nobody here wrote, unmodified, each tuned for one named function: is a candidate void, is it replayed?

    python bench/libraries.py [--budget 40] [--objective runtime] [--lz4 DIR] [--xxhash DIR] [--ujson DIR]
                              [--snappy DIR]

The sources are those in the sdists of the packages lz4, xxhash and ujson (double-conversion, in C++), downloaded by pip
unless a directory is given. Debian's snappy, whose header is configured here, takes part where its directory is given.
Every library is tuned in one directory, and replayed in a copy of it elsewhere.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from machine import describe
from pytest_compileiq.machine_code.names import listed

HEAD = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, minimize

TEXT = (b"the quick brown fox jumps over the lazy dog, " * 400)[:16000]
NOISE = np.random.default_rng(7).integers(0, 64, 49536, dtype=np.uint8).tobytes()
DATA = TEXT + NOISE
"""
MARK = """\
@pytest.mark.tune(
    Cc({sources}, flags="-O2 {flags}", compiler="{compiler}", functions="{function}", neighbours="allow"),
    objectives=[minimize("{objective}")],
)
"""
LZ4 = """
{mark}def test_lz4(acf):
    compress = acf.build().load().LZ4_compress_default
    out = np.zeros(80_000, np.uint8)
    arguments = DATA, out.ctypes.data_as(ctypes.c_void_p), len(DATA), out.size
    acf.measure(lambda: compress(*arguments), outputs=[out])
    assert 0 < compress(*arguments) < len(DATA)
    acf.compare("compressed", out)
"""
XXHASH = """
{mark}def test_xxhash(acf):
    hashed = acf.build().load().XXH3_64bits
    hashed.restype = ctypes.c_uint64
    acf.measure(lambda: hashed(DATA, len(DATA)))
    assert hashed(b"", 0) == 0x2D06800538D394C2
    acf.compare("hash", np.array([hashed(DATA, len(DATA))], np.uint64))
"""
UJSON = """
class Vector(ctypes.Structure):
    _fields_ = [("start", ctypes.c_char_p), ("length", ctypes.c_int)]

DIGITS = [str(number).encode() for number in np.random.default_rng(7).integers(10**15, 10**17, 200)]

{mark}def test_ujson(acf):
    strtod = acf.build().load()["double_conversion::Strtod"]
    strtod.restype, strtod.argtypes = ctypes.c_double, (Vector, ctypes.c_int)
    vectors = [Vector(digits, len(digits)) for digits in DIGITS]
    acf.measure(lambda: [strtod(vector, -40) for vector in vectors])
    assert [strtod(vector, -40) for vector in vectors] == [float(digits + b"e-40") for digits in DIGITS]
"""
SNAPPY = """
{mark}def test_snappy(acf):
    compress = acf.build().load()["{function}"]
    compress.restype = None
    out, length = np.zeros(90_000, np.uint8), ctypes.c_size_t(0)
    arguments = DATA, ctypes.c_size_t(len(DATA)), out.ctypes.data_as(ctypes.c_void_p), ctypes.byref(length)
    acf.measure(lambda: compress(*arguments), outputs=[out])
    compress(*arguments)
    assert 0 < length.value < len(DATA)
    acf.compare("compressed", out)
"""
DECIMAL = "double-conversion"


@dataclass(frozen=True)
class Library:
    """A library and the test of one function of it; ``home`` is where its sources lie in the package."""

    name: str
    home: str
    sources: tuple[str, ...]
    function: str
    body: str
    compiler: str = "gcc"
    flags: str = ""


LIBRARIES = (
    Library("lz4", "lz4libs", ("lz4.c",), "LZ4_compress_default", LZ4),
    Library("xxhash", "deps/xxhash", ("xxhash.c",), "XXH3_64bits", XXHASH),
    Library(
        "ujson",
        f"src/ujson/deps/{DECIMAL}",
        (f"{DECIMAL}/strtod.cc", f"{DECIMAL}/bignum.cc", f"{DECIMAL}/cached-powers.cc"),
        "double_conversion::Strtod",
        UJSON,
        "g++",
    ),
    Library(
        "snappy",
        ".",
        ("snappy.cc", "snappy-sinksource.cc", "snappy-stubs-internal.cc"),
        "snappy::RawCompress(char const*, unsigned long, char*, unsigned long*)",
        SNAPPY,
        "g++",
        "-Iconfigured -DHAVE_BUILTIN_CTZ=1 -DHAVE_BUILTIN_EXPECT=1",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="40")
    parser.add_argument("--objective", default="runtime", choices=("runtime", "code_bytes"))
    parser.add_argument("--keep", type=Path, help="work in this directory, and keep it")
    for library in LIBRARIES:
        parser.add_argument(f"--{library.name}", type=Path, metavar="DIR")
    options = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as temporary:
        home = options.keep or Path(temporary)
        for library in LIBRARIES:
            given = getattr(options, library.name)
            if given is None and library.name == "snappy":
                continue
            package = given or downloaded(library.name, home / "packages")
            project = made(library, package, home / "here" / library.name, options.objective)
            print(tuned_and_replayed(library, project, home / "elsewhere" / library.name, options.budget), flush=True)


def downloaded(name: str, home: Path) -> Path:
    """The unpacked sdist of a package."""
    home.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", ":all:", "--no-deps", "-d", str(home), name]
    subprocess.run(pip, check=True, stdout=subprocess.DEVNULL)
    archive = next(home.glob(f"{name}-*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")
    return home / archive.name.removesuffix(".tar.gz")


def made(library: Library, package: Path, project: Path, objective: str) -> Path:
    """A project of the library's directory as it is, with one test beside it."""
    shutil.copytree(package / library.home, project)
    sources = ", ".join(f'"{source}"' for source in library.sources)
    mark = MARK.format(sources=sources, objective=objective, **vars_of(library))
    body = library.body.replace("{mark}", mark).replace("{function}", library.function)
    (project / f"test_{library.name}.py").write_text(HEAD + body)
    (project / "pytest.ini").write_text("[pytest]\n")
    if (template := project / "snappy-stubs-public.h.in").is_file():
        text = re.sub(r"\$\{HAVE_SYS_UIO_H_01\}", "1", template.read_text())
        (project / "configured").mkdir()
        (project / "configured" / "snappy-stubs-public.h").write_text(re.sub(r"\$\{PROJECT_VERSION_\w+\}", "1", text))
    return project


def vars_of(library: Library) -> dict[str, str]:
    """What a library's marker says."""
    return {"flags": library.flags, "compiler": library.compiler, "function": library.function}


def tuned_and_replayed(library: Library, project: Path, elsewhere: Path, budget: str) -> str:
    """Tune, copy, replay; the line that tells."""
    before = time.monotonic()
    search = run(project, "--tune", f"--tune-budget={budget}")
    seconds = time.monotonic() - before
    (metadata,) = project.glob("acf/*/*.toml")
    artifact = tomllib.loads(metadata.read_text())
    code = artifact["code"]
    changed = sum(pair.get("tuned", pair["baseline"])["sha256"] != pair["baseline"]["sha256"] for pair in code.values())
    void = artifact["search"].get("failures", {}).get("neighbour", 0)
    shutil.copytree(project, elsewhere, ignore=shutil.ignore_patterns(".compileiq", "__pycache__"))
    replay = run(elsewhere, "--acf-check=replay")
    told = next((line.strip() for line in replay.splitlines() if "also changes" in line), "no neighbour is changed")
    verdicts = [word for text in (search, replay) if (word := re.search(r"\b(TUNED|BASELINE|PROVEN|REPLAYED)\b", text))]
    return (
        f"{library.name}: {' and '.join(word[0] for word in verdicts)} in {seconds:.0f} s, {void} void of "
        f"{artifact['search']['evaluations']}, stands for {listed(artifact['functions'])}, {len(code)} entries, "
        f"{changed} changed; {told}"
    )


def run(project: Path, *arguments: str) -> str:
    """What pytest prints there; it has to pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    finished = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if finished.returncode:
        sys.exit(f"{project}: {' '.join(command)} ended with {finished.returncode}\n{finished.stdout}{finished.stderr}")
    return finished.stdout


if __name__ == "__main__":
    main()
