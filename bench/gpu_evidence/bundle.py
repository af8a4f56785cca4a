"""python -m bench.gpu_evidence bundle DIR: wheels of this project and of all that its GPU tests and benchmarks need."""

import argparse
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = ("cuda", "triton")
CONSTRAINTS = ROOT / "tests" / "kernels" / "constraints.txt"
SHORT = {
    "nvcc": (
        "nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime", "nvidia-cuda-cccl",
        "nvidia-cuda-cuobjdump",
    ),
}  # fmt: skip
GLIBC = (28, 27, 24, 17, 12, 5)  # manylinux tags that machines of today take: an exact one each, to pip
MIB = 1 << 20


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="gpu_evidence bundle", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--python", default="3.12", help="of the machine that they are for (default: %(default)s)")
    parser.add_argument("--without", action="append", default=[], metavar="NAME",
                        help="leave this package out; nvcc: the cuda extra's compilers and their headers")  # fmt: skip
    parser.add_argument("--repack", action="store_true", help="compress them harder: a fifth smaller, minutes longer")
    asked = parser.parse_args(arguments)
    left_out = {name for given in asked.without for name in SHORT.get(given, (given,))}
    asked.folder.mkdir(parents=True, exist_ok=True)
    build_own(asked.folder)
    download(asked.folder, asked.python, requirements(left_out))
    for wheel in sorted(asked.folder.glob("*.whl")):
        if distribution(wheel.name) in left_out:
            wheel.unlink()
        elif asked.repack:
            repack(wheel)
    print(sizes(asked.folder))
    return 0


def requirements(left_out: Iterable[str]) -> list[str]:
    """The project's own, as pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    return [requirement for requirement in wanted if distribution(requirement) not in left_out]


def distribution(name: str) -> str:
    """The package that a requirement or a wheel's file name is of: ``numpy>=2.0`` → ``numpy``."""
    plain = re.match(r"[A-Za-z0-9_.]+(?:-[A-Za-z_][A-Za-z0-9_.]*)*", name)
    return re.sub(r"[-_.]+", "-", plain[0]).lower() if plain else name


def build_own(folder: Path) -> None:
    for old in folder.glob("pytest_compileiq-*.whl"):
        old.unlink()
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))


def download(folder: Path, python: str, wanted: Sequence[str]) -> None:
    tags = [f"--platform=manylinux_2_{minor}_x86_64" for minor in GLIBC]
    pip(
        "download", "--only-binary=:all:", f"--python-version={python}", *tags, f"--constraint={CONSTRAINTS}",
        f"--dest={folder}", *wanted,
    )  # fmt: skip


def pip(*arguments: str) -> None:
    """Run pip; its failure ends the command with what it said."""
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pip {arguments[0]} failed:\n{done.stderr}")


def repack(wheel: Path) -> None:
    """The same wheel by LZMA instead of deflate, which pip reads as well."""
    partial = wheel.with_suffix(".partial")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(partial, "w", zipfile.ZIP_LZMA) as new:
        for entry in old.infolist():
            new.writestr(entry, old.read(entry), zipfile.ZIP_LZMA)
    partial.replace(wheel)


def sizes(folder: Path) -> str:
    """The wheels, the largest first, and their sum."""
    sized = sorted(((path.stat().st_size, path.name) for path in folder.glob("*.whl")), reverse=True)
    lines = [f"{size / MIB:8.1f} MiB  {name}" for size, name in sized if size >= MIB]
    return "\n".join(
        [*lines, f"{sum(size for size, _ in sized) / MIB:8.1f} MiB  in all, {len(sized)} wheels in {folder}"]
    )
