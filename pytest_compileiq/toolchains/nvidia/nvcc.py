"""Builds with nvcc: one installed compiler on one ``.cu`` file, for one or several architectures."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.machine_code.cubin import read_cubin
from pytest_compileiq.machine_code.elf import machine_code
from pytest_compileiq.machine_code.metrics import totals
from pytest_compileiq.machine_code.shared_library import load_library
from pytest_compileiq.model import (
    HOST,
    BuildResult,
    CodeDigest,
    Compiler,
    ControlsFile,
    Knobs,
    KnobValue,
    Licence,
    Target,
    sha256_hex,
)
from pytest_compileiq.rules.classes import each_once
from pytest_compileiq.space import NvccSearchSpace, OpaqueSpace, PtxasSearchSpace
from pytest_compileiq.timing.clock import capability
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compilation_database import Checkout, RecordedCommand, expanded
from pytest_compileiq.toolchains.cc.flags import find_file
from pytest_compileiq.toolchains.cc.production import Production, launched, production_command
from pytest_compileiq.toolchains.functions import FunctionSelection
from pytest_compileiq.toolchains.inputs import portable
from pytest_compileiq.toolchains.macros import baseline_macros, why_idle, without_replaced
from pytest_compileiq.toolchains.marker_values import frozen
from pytest_compileiq.toolchains.nvidia.builder import NvidiaBuilder, by_flags, by_operations, contraction, entries_of
from pytest_compileiq.toolchains.nvidia.cacheable import NvccInputs, expect_modelled_by
from pytest_compileiq.toolchains.nvidia.front_end import CONTROLS, Compiled, FrontEnds, NvccBuild
from pytest_compileiq.toolchains.nvidia.instantiations import Instantiations, instantiations
from pytest_compileiq.toolchains.nvidia.markers import Nvcc
from pytest_compileiq.toolchains.nvidia.options import (
    GCC_NAMES,
    NVCC,
    OURS,
    as_nvcc_takes_it,
    as_one_definition,
    in_one_word,
    respelled,
    split_nvcc_flags,
)
from pytest_compileiq.toolchains.nvidia.tools import (
    NvccReader,
    check_architecture,
    find_tool,
    several_architectures,
)
from pytest_compileiq.toolchains.options import options_of
from pytest_compileiq.toolchains.steps import Commands, ask

_CONTROLS_FROM = (10, 0)  # cicc refuses -apply-controls below sm_100
_SEED_SINCE = 13  # the first version seen to take -frandom-seed; 12.6 does not
_ONE_SIDED = ": where a macro is an argument of a template, name the kernel as in instantiate=['scale<TILE>']"
_LICENCES_S = 120.0
_NAME_OF_OUTPUT = {"cubin": "kernel.cubin", "library": "kernel.so", "executable": "program"}


def resolve(nvcc: Nvcc, place: Place) -> NvccBuilder:
    """Implement ``Nvcc.resolve``."""
    architectures = several_architectures(nvcc.arch, partial(check_architecture, where="Nvcc"), "Nvcc")
    _check_choices(nvcc, architectures)
    source = find_file(nvcc.source, place, f"Nvcc({nvcc.source!r})", "a source")
    kernels = instantiations(source, nvcc.instantiate, nvcc.output)
    production = nvcc_command(nvcc.like, source, architectures, place) if nvcc.like is not None else None
    given = split_nvcc_flags(("-O3" if production is None else "") if nvcc.flags is None else nvcc.flags, place)
    position_independent = ("-Xcompiler=-fPIC",) if nvcc.output == "library" else ()
    flags = (*(production.flags if production else ()), *given, *position_independent)
    defines, params = baseline_macros(frozen(nvcc.defines), flags, "Nvcc")
    flags = (*flags, *map(as_one_definition, defines))
    functions = _functions(nvcc)
    tool = find_tool("nvcc", nvcc.compiler or (production.compiler if production else None), place)
    architecture = ".".join(architectures)
    targets = [f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}" for arch in architectures]
    return NvccBuilder(
        compiler=Compiler(
            name="nvcc",
            version=tool.version,
            build=tool.build,
            command=(
                *("nvcc", *targets, *map(portable, flags), f"--{nvcc.output}", f"--controls={nvcc.controls}"),
                *(*kernels.recorded, source),
            ),
        ),
        architecture=architecture,
        target=Target.of(architecture, tool.line),
        tool=tool,
        words=(*targets, *flags),
        source=source,
        kernels=kernels,
        output=nvcc.output,
        controls=nvcc.controls,
        functions=functions,
        rootdir=place.rootdir,
        baseline_params=params,
    )


@dataclass(frozen=True, kw_only=True)
class NvccBuilder(NvidiaBuilder):
    """One nvcc on one source, for one or several architectures; it runs in ``rootdir`` on the relative path."""

    is_modelled = True
    public_options = NVCC  # and those of ptxas after ``-Xptxas=``

    words: tuple[str, ...]
    source: str
    kernels: Instantiations
    output: str
    controls: str
    functions: FunctionSelection
    rootdir: Path
    baseline_params: Mapping[str, KnobValue]
    front_ends: FrontEnds = field(default_factory=FrontEnds, compare=False, repr=False)

    @property
    def acf_line(self) -> str:
        return self.tool.line.replace("nvcc", self.controls)

    @property
    def acf_option(self) -> str:
        return "-Xptxas=--apply-controls=" if self.controls == "ptxas" else "--apply-controls="

    @property
    def opaque_space(self) -> OpaqueSpace:
        return PtxasSearchSpace() if self.controls == "ptxas" else NvccSearchSpace()

    def sources(self) -> Mapping[str, str]:
        return self._reader.own((*self.words, *self.kernels.words_to_read))

    def sources_with(self, controls: ControlsFile) -> Mapping[str, str]:
        options = NVCC.words(controls.knobs)
        words = without_replaced(self.words, controls.knobs)
        return self._reader.own((*words, *options, *self.kernels.words_to_read))

    @property
    def _reader(self) -> NvccReader:
        return NvccReader(self.tool.program, self.source, self.rootdir)

    def why_without_effect(self, *probes: Knobs) -> str | None:
        def macros_at_the_end(macros: Knobs) -> list[str]:
            words = (*without_replaced(self.words, macros), *options_of(macros), "-E", "-Xcompiler=-dM")
            return [ask([self.tool.program, *words, *self.kernels.words_to_read], cwd=self.rootdir).output]

        everything = self._reader.everything((*self.words, *self.kernels.words_to_read))
        own = set(filter(self._reader.is_own, everything))
        # Macros may stand in the expressions too, which are no file of the project.
        texts = (*map(str.encode, self.kernels.expressions), *map(Path.read_bytes, own))
        return why_idle(probes, texts, map(Path.read_bytes, everything - own), macros_at_the_end)

    def licences(self) -> tuple[Licence, ...]:
        # Controls do not reach the optimiser of host code, whose licences are therefore none.
        return each_once(chain.from_iterable(map(self._licences_for, self.architectures)))

    def _licences_for(self, arch: str) -> Iterator[Licence]:
        with tempfile.TemporaryDirectory() as directory:
            commands = self._commands(Path(directory), _LICENCES_S)
            as_it_is, unfused = (self._ptx(commands, arch, *more) for more in ((), ("--fmad=false",)))
        remedy = "--fmad=false in the toolchain's flags"
        yield from contraction(as_it_is, unfused, "nvcc's default --fmad=true", remedy)
        yield from by_flags(self._baseline, as_it_is)
        yield from by_operations(as_it_is)

    def _ptx(self, commands: Commands, arch: str, *more: str) -> str:
        flags = self.words[len(self.architectures) :]
        ptx = commands.out_dir / "kernel.ptx"
        argv = [self.tool.program, *self._seed(), f"-arch={arch}", *flags, *more, "-ptx"]
        argv += [*self.kernels.words_to_compile(commands.out_dir), "-o", str(ptx)]
        commands.run(argv, self.source)
        return ptx.read_text(encoding="utf-8", errors="replace")

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        return self._build(controls, out_dir, timeout_s, NvccBuild.whole)

    def build_together(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        return self._build(controls, out_dir, timeout_s, self.front_ends.build)

    def _build(
        self, controls: ControlsFile | None, out_dir: Path, timeout_s: float, run: Callable[[NvccBuild], Compiled]
    ) -> BuildResult:
        out_dir = out_dir.absolute()
        out_dir.mkdir(parents=True, exist_ok=True)
        commands = self._commands(out_dir, timeout_s)
        log, code = run(NvccBuild(commands, partial(self._command, controls), self._code, self.source))
        metrics = totals(entry.metrics for name, entry in code.items() if name != HOST)
        return BuildResult(out_dir / _NAME_OF_OUTPUT[self.output], code, metrics, log, commands.seconds)

    def _commands(self, out_dir: Path, timeout_s: float) -> Commands:
        return Commands(f"nvcc {self.tool.version}", self.rootdir, out_dir, timeout_s, self.kernels.first_error)

    def _command(self, controls: ControlsFile | None, out_dir: Path) -> list[str]:
        """nvcc's command for a build in ``out_dir``, into which the files that it names are written."""
        kind = {"cubin": ["-cubin"] if len(self.architectures) == 1 else ["-fatbin"], "library": ["-shared"]}
        return [
            self.tool.program,
            *self._seed(),
            *(without_replaced(self.words, controls.knobs) if controls else self.words),
            "-Xptxas=-v",
            *kind.get(self.output, []),
            *self.applied(controls, out_dir / CONTROLS),
            "--keep",
            f"--keep-dir={out_dir}",
            *self.kernels.words_to_compile(out_dir),
            *("-o", str(out_dir / _NAME_OF_OUTPUT[self.output])),
        ]

    def _seed(self) -> list[str]:
        """The seed option; without it, nvcc changes the private names of a file of templates with every build."""
        is_given = any(word.startswith(("-frandom-seed", "--frandom-seed")) for word in self.words)
        if is_given or int(self.tool.version.partition(".")[0]) < _SEED_SINCE:
            return []
        return [f"-frandom-seed=0x{sha256_hex(self.source.encode())[:8]}"]

    def _code(self, out_dir: Path, log: str) -> dict[str, CodeDigest]:
        """Entry → digest, named ``kernel@sm_90a`` if there are several architectures; host code is one entry."""
        code: dict[str, CodeDigest] = {}
        for arch, suffix in zip(self.architectures, self.suffixes, strict=True):
            cubin = self.kernels.named(read_cubin(self._cubin(out_dir, arch)))
            code |= entries_of(cubin, log, arch, self.source, suffix)
        if self.output != "cubin":
            code[HOST] = machine_code([out_dir / f"{Path(self.source).stem}.o"]).program
        return code

    def _cubin(self, out_dir: Path, arch: str) -> Path:
        """The cubin for ``arch``: the output itself, or where ``--keep`` leaves it."""
        if len(self.architectures) > 1:
            return out_dir / f"{Path(self.source).stem}.{arch.replace('sm_', 'compute_')}.cubin"
        return out_dir / (_NAME_OF_OUTPUT["cubin"] if self.output == "cubin" else f"{Path(self.source).stem}.cubin")

    def cacheable(self, controls: ControlsFile | None) -> NvccInputs:
        options = NVCC.words(controls.knobs) if controls else ()
        expect_modelled_by("nvcc", (*self.words, *options), with_host=self.output != "cubin")
        return NvccInputs.preprocessed(
            partial(self._command, controls),
            names=(*self.kernels.recorded, self.source, self.architecture),
            cubins=[self._cubin(Path(), arch).name for arch in self.architectures if self.output == "cubin"],
            controls=controls,
            is_own=self._reader.is_own,
            rootdir=self.rootdir,
        )

    def load(self, built: BuildResult, used: set[str]) -> Any:
        """A cubin's kernels by name, a library as ``ctypes.CDLL``, or a program's path.

        With several architectures the kernels are those that run here, and count as taken in every architecture.
        """
        if self.output == "executable":
            return built.path
        if self.output == "library":
            # A host function launches kernels unseen, so the functions taken say nothing about the device code.
            return load_library(built, set())
        from pytest_compileiq.toolchains.nvidia.launch import CubinModule  # heavy: the CUDA driver

        is_output = len(self.architectures) == 1
        cubin = built.path if is_output else self._cubin(built.path.parent, self.loaded_architecture)
        return CubinModule(cubin, used, self.suffixes, self.kernels.named)


# Production's command from a compilation database, where CMake, Ninja and Bear record nvcc's as they record gcc's. Left
# out are what the plugin gives itself (outputs, the stage, architectures) and what makes warnings errors.
_RESPONSE_FILES = {"-optf": "@", "--options-file": "@"}  # -optf F is @F
_ARCHITECTURES = re.compile(
    r"(?:-arch|--gpu-architecture|-code|--gpu-code|-gencode|--generate-code)=(?P<value>.*)", re.DOTALL
)
_REAL = re.compile(r"sm_\w+")
_LEFT_OUT = re.compile(
    r"--device-w|-(?:-generate-nonsystem-|-generate-)?dependenc.*|-x=cu|-?-?Werror(?:=.*)?|-?-time=.*", re.DOTALL
)


def nvcc_command(like: str, source: str, architectures: Sequence[str], place: Place) -> Production:
    """How production compiles ``source``, which is relative to rootdir, for the architectures that the marker names.

    Raises:
        MarkerError: there is no such database or command, several differ, a command cannot be used, or it compiles
            for other architectures.
    """

    def read(entry: RecordedCommand, checkout: Checkout) -> Production:
        respell = partial(respelled, names=_RESPONSE_FILES)
        before, (compiler, *words) = launched(expanded(entry, checkout, place.rootdir, respell))
        if "/" in compiler:
            compiler = str(place.rootdir / checkout.path(compiler, entry.directory))
        flags: list[str] = []
        made_for: set[str] = set()
        for word in in_one_word(respelled(words, GCC_NAMES)):
            if named := _ARCHITECTURES.fullmatch(word):
                made_for.update(_REAL.findall(named["value"]))
            elif word in ("-dc", "--device-c"):
                flags.append("-rdc=true")
            elif word.startswith("-") and not _is_left_out(word):
                flags.append(_here(word, entry, checkout))
        made_in_order = sorted(made_for, key=lambda arch: (capability(arch), arch))
        if not made_for:
            raise MarkerError(
                "its command names no real architecture, such as sm_90, so that the machine or nvcc's version chooses: "
                "name its GPUs there, or give its options in flags="
            )
        if other := sorted(set(architectures) - made_for):
            known = ", ".join(made_in_order)
            raise MarkerError(f"its command compiles for {known}, and not for {other[0]}: name those in arch=")
        return Production(compiler, tuple(flags), tuple(before), tuple(made_in_order))

    return production_command(like, source, place, read)


def _is_left_out(word: str) -> bool:
    return bool(OURS.fullmatch(word.partition("=")[0]) or _LEFT_OUT.fullmatch(word) or "apply-controls" in word)


def _here(word: str, entry: RecordedCommand, checkout: Checkout) -> str:
    """An option with its path relative to rootdir."""
    option = next((option for option in ("-isystem", "-include", "-I") if word.startswith(option)), None)
    if option is None:
        return checkout.text(word)
    return as_nvcc_takes_it(option + checkout.path(word.removeprefix(option), entry.directory))


def _functions(nvcc: Nvcc) -> FunctionSelection:
    functions = FunctionSelection.of(
        "Nvcc", nvcc.functions, nvcc.neighbours, apart=frozenset({HOST}), one_sided=_ONE_SIDED
    )
    if functions.neighbours == "allow" and not functions.patterns and nvcc.output != "cubin":
        raise MarkerError(
            f"Nvcc(output={nvcc.output!r}, neighbours='allow'): host code launches kernels unseen, so nothing says "
            "which of them the test stands for: name them, as in functions='scale'"
        )
    return functions


def _check_choices(nvcc: Nvcc, architectures: tuple[str, ...]) -> None:
    if nvcc.output not in _NAME_OF_OUTPUT:
        raise MarkerError(f"Nvcc(output={nvcc.output!r}): expected {', '.join(map(repr, _NAME_OF_OUTPUT))}")
    if nvcc.controls not in ("ptxas", "nvcc"):
        raise MarkerError(f"Nvcc(controls={nvcc.controls!r}): expected 'ptxas' or 'nvcc'")
    too_old = [arch for arch in architectures if capability(arch) < _CONTROLS_FROM]
    if nvcc.controls == "nvcc" and too_old:
        raise MarkerError(
            f"Nvcc(controls='nvcc'): nvcc's own controls work on sm_100 and newer, and not on {', '.join(too_old)}: "
            "use controls='ptxas', which works everywhere"
        )
