"""The marker's arguments for any compiler; ``pytest_compileiq.toolchains.command.builder`` implements them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_compileiq.toolchains.marker_values import frozen

# Every tuned test file imports this module, even in runs that tune nothing, so it must import nothing heavy.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place
    from pytest_compileiq.toolchains.macros import Defines


@dataclass(frozen=True, init=False)
class Command:
    """A kernel built by any compiler, from a template of its commands. An example is a pass pipeline of LLVM::

        Command(
            [
                "opt -passes={pipeline} {options} {source} -o {out_dir}/kernel.bc",
                "llc -O3 -relocation-model=pic -filetype=obj {out_dir}/kernel.bc -o {out_dir}/kernel.o",
                "gcc -shared {out_dir}/kernel.o -o {out}",
            ],
            sources=["kernel.ll"],
            defaults={"pipeline": "default<O2>"},
        )

    Steps run in rootdir, one after the other and without a shell: ``|``, ``*`` and ``$HOME`` mean nothing.

    Args:
        steps: one command or several, split as a shell would. ``{source}`` is the only source and ``{sources}`` all
            sources; ``{out}`` is the output of the last step and ``{out_dir}`` the directory for all other output;
            ``{options}`` becomes the knobs that begin with ``-``, name and value joined, one word each; ``{NAME}``
            becomes the value of the knob ``NAME``, which never reaches beyond its place in that one word.
        sources: paths relative to the test file.
        defaults: the baseline's value of every ``{NAME}``.
        defines: macro → its value in the baseline, as in ``{"TILE": 16}``, put where ``{options}`` stands. A knob
            ``"-DTILE="`` takes its place, and both arms read theirs as ``acf.params["TILE"]``.
        output: a ``"library"`` is loaded with ``ctypes.CDLL``; for an ``"executable"`` or a ``"file"`` the body gets
            the path.
        objects: a pattern of the files in ``{out_dir}`` that a library or an executable is linked from. Replay compares
            the machine code in them, function by function; if they do not hold all of it, replay compares the bytes of
            the output.
        depends: more files that the steps read, such as headers; paths relative to the test file.
        target: the architecture that the steps compile for; by default this machine's. Kernels run here if it begins
            with this machine's name, e.g. ``x86-64-v3``. ``native`` cannot be used, since it names no processor.
        version: the command that prints the compiler's version, e.g. ``"opt --version"``; by default ``--version`` of
            the first step's program.
    """

    steps: tuple[str, ...]
    sources: tuple[str, ...]
    defaults: tuple[tuple[str, bool | int | float | str], ...]
    defines: Defines
    output: Literal["library", "executable", "file"]
    objects: str
    depends: tuple[str, ...]
    target: str | None
    version: str | None

    def __init__(
        self,
        steps: str | Sequence[str],
        *,
        sources: str | Sequence[str],
        defaults: Mapping[str, bool | int | float | str] | None = None,
        defines: Mapping[str, int | float | str] | None = None,
        output: Literal["library", "executable", "file"] = "library",
        objects: str = "*.o",
        depends: str | Sequence[str] = (),
        target: str | None = None,
        version: str | None = None,
    ) -> None:
        object.__setattr__(self, "steps", frozen(steps))
        object.__setattr__(self, "sources", frozen(sources))
        object.__setattr__(self, "defaults", frozen({} if defaults is None else defaults))
        object.__setattr__(self, "defines", frozen({} if defines is None else defines))
        object.__setattr__(self, "output", output)
        object.__setattr__(self, "objects", objects)
        object.__setattr__(self, "depends", frozen(depends))
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "version", version)

    def resolve(self, place: Place) -> Builder:
        """Find the programs of the steps.

        Raises:
            EnvironmentFault: a program is not installed, or the compiler does not report its version.
            MarkerError: a source is missing, or a step cannot be used.
        """
        from pytest_compileiq.toolchains.command.builder import resolve  # heavy, and not needed to collect tests

        return resolve(self, place)
