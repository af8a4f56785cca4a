"""Builds for races: gcc's own compiler proper and assembler, on a source that is preprocessed once for its macros."""

import hashlib
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from machine import processor
from pytest_compileiq.machine_code.elf import machine_code
from pytest_compileiq.model import Knobs
from race_kept import Kept

BENCH = Path(__file__).parent
DRIVERS = BENCH / "race_kernels"
TIMEOUT_S = 20.0
BASELINE = ("-O2", "-march=x86-64-v3", "-ffp-contract=off", "-fPIC")
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Source:
    """One C file to tune.

    Attributes:
        name: for messages and keys.
        path: the file.
        driver: what calls it, as in ``race_driver.h``; the file itself where it holds its driver; None if never run.
        flags: for the preprocessor: folders of headers, macros that no knob changes.
    """

    name: str
    path: Path
    driver: Path | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Build:
    """A candidate's machine code by its digest, its size, and the processor seconds of the build when it was made."""

    code: str | None
    code_bytes: int
    seconds: float


class Workshop:
    """gcc's programs, a folder that is gone afterwards, and what has been made before."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self._folder = tempfile.TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
        self.scratch = Path(self._folder.name)
        self.cc1, self.assembler, self.linker = (_program(name) for name in ("cc1", "as", "ld"))
        self.compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout

    def close(self) -> None:
        self._folder.cleanup()


class Kernel:
    """A source with all that was built of it and measured on it."""

    def __init__(self, workshop: Workshop, source: Source) -> None:
        self.source = source
        self._workshop = workshop
        self._preprocessed: dict[tuple[str, ...], Path] = {}
        self._server: subprocess.Popen[str] | None = None

    @cached_property
    def identity(self) -> str:
        """A digest of all that a build depends on, macros and options apart."""
        flags = " ".join((*BASELINE, *(flag for flag in self.source.flags if not flag.startswith("-I"))))
        return _digest(self._workshop.compiler.encode(), flags.encode(), self.source.path.read_bytes())

    @cached_property
    def measured_identity(self) -> str:
        """A digest of all that an answer depends on, machine code apart: what was timed elsewhere is no answer here."""
        assert self.source.driver is not None
        served = (self.source.driver, BENCH / "race_serve.c", DRIVERS / "race_driver.h")
        here = processor().encode()
        return _digest(self.identity.encode(), here, *(path.read_bytes() for path in served))

    def build(self, knobs: Knobs) -> Build:
        """The build with ``knobs``: options, and macros by their ``-D``."""
        given = sorted(f"{name}{value}" for name, value in knobs.items())
        kept = self._workshop.kept.build(self.identity, " ".join(given))
        if kept is None:
            before = processor_s()
            code = self._compiled(given)
            self._workshop.kept.keep_build(self.identity, " ".join(given), code, processor_s() - before)
            kept = self._workshop.kept.build(self.identity, " ".join(given))
        assert kept is not None
        return Build(*kept)

    def answer(self, code: str, processes: int, samples: int) -> tuple[str, float]:
        """What ``race_serve`` says of machine code that was built here before, and the processor seconds that it took.

        One line: the verdict of the first process that did not call it ok, or ok and the numbers of all of them.
        """
        asked = f"{processes} x {samples}"
        kept = self._workshop.kept.answer(self.measured_identity, code, asked)
        if kept is None:
            said, seconds = self._served(code, processes, samples)
            self._workshop.kept.keep_answer(self.measured_identity, code, asked, said, seconds)
            kept = self._workshop.kept.answer(self.measured_identity, code, asked)
        assert kept is not None
        return kept

    def close(self) -> None:
        if self._server is not None:
            self._server.communicate()

    # ── compiling ────────────────────────────────────────────────────────────────────────────────────────────────

    def _compiled(self, given: Sequence[str]) -> str | None:
        macros = tuple(option for option in given if option.startswith("-D"))
        options = [option for option in given if not option.startswith("-D")]
        made = self._workshop.scratch / "candidate.o"
        assembly = made.with_suffix(".s")
        text = self._preprocessed_with(macros)
        compile_it = [self._workshop.cc1, "-quiet", "-w", "-fpreprocessed", text, *BASELINE, *options, "-o", assembly]
        if not _succeeds(compile_it) or not _succeeds([self._workshop.assembler, assembly, "-o", made]):
            return None
        program = machine_code([made]).program
        self._workshop.kept.keep_object(program.sha256, int(program.metrics["code_bytes"]), made.read_bytes())
        return program.sha256

    def _preprocessed_with(self, macros: tuple[str, ...]) -> Path:
        if macros not in self._preprocessed:
            text = self._workshop.scratch / f"{self.source.name}-{len(self._preprocessed)}.i"
            flags = [*BASELINE, *self.source.flags, *macros]
            subprocess.run(["gcc", "-E", "-P", *flags, self.source.path, "-o", text], check=True)
            self._preprocessed[macros] = text
        return self._preprocessed[macros]

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _served(self, code: str, processes: int, samples: int) -> tuple[str, float]:
        if self._server is None:
            self._server = self._opened_server()
        library = self._linked(code)
        said = [self._asked(f"{library} {samples}") for _ in range(processes)]
        library.unlink()
        failed = next((line for line, _ in said if not line.startswith("ok")), None)
        joined = " ".join(["ok", *(line.removeprefix("ok ") for line, _ in said)])
        return failed or joined, sum(seconds for _, seconds in said)

    def _asked(self, question: str) -> tuple[str, float]:
        assert self._server is not None and self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(question + "\n")
        self._server.stdin.flush()
        if not (line := self._server.stdout.readline().strip()):
            raise SystemExit(f"race_serve of {self.source.name} ended by itself")
        said, _, seconds = line.partition(" after ")
        return said, float(seconds)

    def _linked(self, code: str) -> Path:
        library = self._workshop.scratch / f"{code}.so"
        made = library.with_suffix(".o")
        made.write_bytes(self._workshop.kept.object_of(code))
        subprocess.run([self._workshop.linker, "-shared", made, "-o", library, "-lm"], check=True)
        made.unlink()
        return library

    def _opened_server(self) -> subprocess.Popen[str]:
        assert self.source.driver is not None
        program = self._workshop.scratch / f"serve-{self.source.name}"
        # An interrupted call may not write over what the trap's return pops: no red zone.
        flags = ["-O2", "-w", "-mno-red-zone", "-DRACE_DRIVER", f"-I{DRIVERS}", *self.source.flags]
        files = [BENCH / "race_serve.c", self.source.driver]
        subprocess.run(["gcc", *flags, *files, "-o", program, "-lm", "-ldl"], check=True)
        baseline = self.build({}).code
        assert baseline is not None
        library = self._linked(baseline).rename(self._workshop.scratch / f"{self.source.name}-baseline.so")
        pipe = subprocess.PIPE
        return subprocess.Popen([str(program), str(library)], stdin=pipe, stdout=pipe, text=True)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def _program(name: str) -> str:
    found = subprocess.run(["gcc", f"-print-prog-name={name}"], capture_output=True, text=True, check=True).stdout
    return shutil.which(found.strip()) or found.strip()


def _succeeds(command: Sequence[str | Path]) -> bool:
    silent = subprocess.DEVNULL
    try:
        return subprocess.run(command, stdout=silent, stderr=silent, timeout=TIMEOUT_S, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def processor_s() -> float:
    """Processor seconds of this process and its children so far."""
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
