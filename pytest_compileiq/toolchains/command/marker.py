"""The marker's words for any compiler; what they do is in ``pytest_compileiq.toolchains.command.builder``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

# Every tuned test file imports this module, in runs that tune nothing too: it must cost nothing.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place


@dataclass(frozen=True, init=False)
class Command:
    """A kernel built by whatever compiler, from a template of its commands. A pass pipeline of LLVM, for example::

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
        steps: one command or several, split as a shell would. ``{source}`` is the only source and ``{sources}`` all of
            them, ``{out}`` is what the last step makes and ``{out_dir}`` where the others put what they make;
            ``{options}`` becomes the knobs that begin with ``-``, name and value joined, one word each; ``{NAME}``
            becomes the value of the knob ``NAME``, and never more than its place in that one word.
        sources: paths relative to the test file.
        defaults: the baseline's value of every ``{NAME}``.
        output: ``"library"`` is loaded with ``ctypes.CDLL``; of an ``"executable"`` or a ``"file"`` the path is
            given.
        objects: the names of the files in ``{out_dir}`` that a library or an executable is linked from, as a pattern:
            replay compares the machine code in them, function by function. Where they do not hold all of it, replay
            compares the bytes of the output.
        depends: more files that the steps read, such as headers; paths relative to the test file.
        target: the architecture that the steps compile for, beginning with this machine's name when its kernels run
            here (``x86-64-v3``); this machine's by default. ``native`` cannot be used: it names no processor.
        version: what prints the compiler's version, ``"opt --version"``; by default it is the first step's program.
    """

    steps: tuple[str, ...]
    sources: tuple[str, ...]
    defaults: tuple[tuple[str, bool | int | float | str], ...]
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
        output: Literal["library", "executable", "file"] = "library",
        objects: str = "*.o",
        depends: str | Sequence[str] = (),
        target: str | None = None,
        version: str | None = None,
    ) -> None:
        object.__setattr__(self, "steps", _frozen(steps))
        object.__setattr__(self, "sources", _frozen(sources))
        object.__setattr__(self, "defaults", _frozen({} if defaults is None else defaults))
        object.__setattr__(self, "output", output)
        object.__setattr__(self, "objects", objects)
        object.__setattr__(self, "depends", _frozen(depends))
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "version", version)

    def resolve(self, place: Place) -> Builder:
        """Find the programs of the steps.

        Raises:
            EnvironmentFault: one is not installed, or the compiler does not say its version.
            MarkerError: a source is missing, or a step cannot be used.
        """
        from pytest_compileiq.toolchains.command.builder import resolve  # heavy, and collecting does without

        return resolve(self, place)


def _frozen(value: Any) -> Any:
    """``value`` as tuples, so that a marker is a value; what is of a wrong kind is left for ``Command.resolve``."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        return tuple(sorted(value.items(), key=str))
    return tuple(value) if isinstance(value, Sequence) else value
