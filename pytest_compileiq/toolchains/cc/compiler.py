"""One installed gcc or clang: its version, what ``native`` means to it here, and what its machine flags need."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from pytest_compileiq.errors import BuildError, EnvironmentFault, MarkerError
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.system.cpu import this_architecture
from pytest_compileiq.toolchains.base import HostFlags, Place
from pytest_compileiq.toolchains.cc.flags import CHOOSE_THE_ARCHITECTURE
from pytest_compileiq.toolchains.steps import ask, find_program, telling_line

_EMPTY_FILE = ("-x", "c", os.devnull)

# Instruction sets that a compiler uses by itself. Others (SGX, XSAVE, …) differ between virtual machines of one
# processor and change no code.
_INSTRUCTION_SET = re.compile(
    r"#define __(S?SSE[0-9A_]*|AVX[0-9A-Z]*|FMA4?|BMI2?|POPCNT|LZCNT|MOVBE|F16C|"
    r"GFNI|V?AES|V?PCLMUL(?:QDQ)?|SHA|ADX|XOP|TBM)__ 1"
)
_NAMES_IN_CPUINFO = {"SSE3": "pni", "LZCNT": "abm", "BMI": "bmi1", "PCLMUL": "pclmulqdq", "SHA": "shani"}
_X86_LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
_TELLING = re.compile(r"[Ee]rror:|undefined reference|cannot find|fatal")
_NATIVE = re.compile(r"-m(arch|tune|cpu)=native")
_OF_A_MACHINE = re.compile(r"-m[a-z0-9][A-Za-z0-9._+=-]*")


class CcCompiler(Struct, frozen=True):
    """An installed gcc or clang (``name``); ``build`` is its line of ``--version``, ``machine`` e.g. ``x86-64``."""

    program: str
    name: str
    version: str
    build: str
    machine: str

    @property
    def line(self) -> str:
        """Name and major version; artifacts of another line do not apply."""
        return self.name + self.version.partition(".")[0]

    @property
    def links_cplusplus(self) -> bool:
        """Whether it links with the library of C++, as ``g++``, ``clang++-16`` and ``x86_64-linux-gnu-g++`` do."""
        return "++" in Path(self.program).name

    def architecture(self, flags: Sequence[str]) -> str:
        """The processor that ``flags`` choose, as spelled in an artifact's target."""
        chosen = [flag.partition("=")[2] for flag in flags if flag.startswith(CHOOSE_THE_ARCHITECTURE)]
        return re.sub(r"[^A-Za-z0-9._-]", "_", chosen[-1]) if chosen else self.machine

    def host_flags(self, flags: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """What each ``native`` of ``flags`` means here: the processor's name and instruction sets it adds or lacks."""
        # Without the cache sizes that native would set too, which differ between virtual machines.
        named = ((flag, _NATIVE.fullmatch(flag)) for flag in flags)
        return {flag: tuple(self._resolve_native(native[1])) for flag, native in named if native}

    def unrunnable(self, flags: Sequence[str]) -> str | None:
        """Why this machine cannot run what ``flags`` compile for; None if it can."""
        here = this_architecture()
        if here != self.machine:
            return f"it is compiled for {self.machine}; this machine is {here}"
        if self.machine != "x86-64":
            return None
        present = _cpuinfo_flags()
        missing = sorted(
            name for name in self.instruction_sets(flags) if _NAMES_IN_CPUINFO.get(name, _squeezed(name)) not in present
        )
        return f"it needs {', '.join(missing)}, which this processor lacks" if present and missing else None

    def instruction_sets(self, flags: Sequence[str]) -> frozenset[str]:
        """Instruction sets that ``flags`` turn on, named as in the compiler's macros (``AVX2``)."""
        return _instruction_sets(self.program, tuple(flag for flag in flags if flag.startswith("-m")))

    def _resolve_native(self, kind: str) -> list[str]:
        shown = ask([self.program, f"-m{kind}=native", "-###", "-E", *_EMPTY_FILE]).output
        by_clang = "tune" if kind == "tune" else "target"
        pattern = rf'"-{by_clang}-cpu" "(?!native)([^"]+)"|[\s"]-m{kind}=(?!native)([\w.+-]+)'
        names = [first or second for first, second in re.findall(pattern, shown)]
        if not names:
            raise MarkerError(f"{self.name} does not say what -m{kind}=native means here: name the processor instead")
        if kind != "arch" or self.machine != "x86-64":
            return [f"-m{kind}={names[-1]}"]
        name = names[-1]
        native = self.instruction_sets(["-march=native"])
        if name == "x86-64":  # the compiler does not know this processor: take the best level that fits
            fitting = (level for level in _X86_LEVELS if self.instruction_sets([f"-march={level}"]) <= native)
            name = next(fitting, name)
        named = self.instruction_sets([f"-march={name}"])
        surplus = [f"-m{_as_option(feature)}" for feature in sorted(native - named)]
        lacking = [f"-mno-{_as_option(feature)}" for feature in sorted(named - native)]
        return [f"-march={name}", *surplus, *lacking]


def without_native(flags: Sequence[str], host_flags: HostFlags) -> tuple[str, ...]:
    """``flags`` with every ``native`` replaced by what it means."""
    if unknown := next((flag for flag in flags if _NATIVE.fullmatch(flag) and flag not in host_flags), None):
        raise EnvironmentFault(f"the machine that runs what is built does not say what {unknown} means there")
    return tuple(meant for flag in flags for meant in host_flags.get(flag, (flag,)))


def expect_machine_flags(host_flags: HostFlags) -> HostFlags:
    """``host_flags`` as another machine has told them; EnvironmentFault unless each chooses a processor alone."""
    for flag, meant in host_flags.items():
        odd = [flag] if not _NATIVE.fullmatch(flag) else [word for word in meant if not _OF_A_MACHINE.fullmatch(word)]
        if odd:
            raise EnvironmentFault(f"another machine says that {flag!r} means {odd[0]!r}, which chooses no processor")
    return host_flags


_OTHERS = (("clang", "clang++"), ("gcc", "g++"))  # than gcc and g++, than clang and clang++


def find_compiler(compiler: str, place: Place) -> CcCompiler:
    """Find ``compiler``, a program on ``PATH`` or a path relative to the test file.

    Raises:
        EnvironmentFault: it is missing, does not answer, or is neither gcc nor clang.
    """
    name = Path(compiler).name
    other = _OTHERS["clang" in name]["++" in name]
    remedy = f"install it, or name another: Cc(…, compiler={other!r})"
    return identify(find_program(compiler, place.test_dir, "compiler", remedy))


def first_error(output: str) -> str:
    """The line of a compiler's or linker's output that says what is wrong."""
    return telling_line(output, _TELLING)


@lru_cache(maxsize=64)
def identify(program: str) -> CcCompiler:
    """Identify ``program`` by its predefined macros; raises ``EnvironmentFault`` if it is neither gcc nor clang."""
    said = ask([program, "--version"]).output
    build = said.partition("\n")[0].strip()
    if files := re.findall(r"^Configuration file: (.+)$", said, re.MULTILINE):  # clang puts their options before all
        content = b"".join(Path(file).read_bytes() for file in files if Path(file).is_file())
        build += f", configuration {sha256_hex(content)[:8]}"
    asked = [program, "-dM", "-E", *_EMPTY_FILE]
    answer = ask(asked)
    if answer.returncode < 0 or "signal terminated program" in answer.output:
        said = first_error(answer.output) if answer.output.strip() else f"signal {-answer.returncode}"
        raise EnvironmentFault(f"{program} crashes at an empty file ({said}): mend it, and try {' '.join(asked)}")
    macros = answer.output
    for name, parts in {
        "clang": ("__clang_major__", "__clang_minor__", "__clang_patchlevel__"),
        "gcc": ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"),
    }.items():
        numbers = [re.search(rf"^#define {part} (\d+)$", macros, re.MULTILINE) for part in parts]
        if all(numbers):
            version = ".".join(number[1] for number in numbers if number)
            machine = ask([program, "-dumpmachine"]).output.partition("-")[0].strip().replace("_", "-")
            return CcCompiler(program, name, version, build, machine)
    raise EnvironmentFault(f"{program} is neither gcc nor clang: it says {build!r}; give Cc one of these")


@lru_cache(maxsize=256)
def _instruction_sets(program: str, machine_flags: tuple[str, ...]) -> frozenset[str]:
    answer = ask([program, *machine_flags, "-dM", "-E", *_EMPTY_FILE])
    if answer.returncode != 0:
        raise MarkerError(f"flags {' '.join(machine_flags)!r}: {first_error(answer.output)}")
    return frozenset(_INSTRUCTION_SET.findall(answer.output)) - {"SSE_MATH", "SSE2_MATH"}


@lru_cache(maxsize=1)
def _cpuinfo_flags() -> frozenset[str]:
    """Features of the first processor, without underscores; empty if ``/proc/cpuinfo`` does not list them."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return frozenset()
    return frozenset(_squeezed(flag) for flag in flags[1].split()) if flags else frozenset()


def _squeezed(name: str) -> str:
    return name.lower().replace("_", "")


def _as_option(instruction_set: str) -> str:
    return instruction_set.lower().replace("_", ".")


_SUFFIXES = frozenset({".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP", ".ii"})
_UNDEFINED = ("undefined reference", "undefined symbol")


def is_cplusplus(source: str) -> bool:
    """Whether ``source`` is C++ by its name, as gcc tells."""
    return Path(source).suffix in _SUFFIXES


@contextmanager
def naming_the_cplusplus_compiler(sources: Sequence[str], compiler: CcCompiler) -> Iterator[None]:
    """Add to an error about an undefined symbol which compiler links C++, where one of C was given C++."""
    try:
        yield
    except BuildError as error:
        cplusplus = next((source for source in sources if is_cplusplus(source)), None)
        wanted = "clang++" if compiler.name == "clang" else "g++"
        if cplusplus is None or compiler.links_cplusplus or not any(sign in str(error) for sign in _UNDEFINED):
            raise
        hint = f"{error}; {cplusplus} is C++, which links with its library where compiler={wanted!r}"
        raise BuildError(hint, kind=error.kind, log=error.log) from error
