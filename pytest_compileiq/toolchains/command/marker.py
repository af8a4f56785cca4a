"""The marker's arguments for any compiler: commands with places for controls, whose values stay in their places.

Words are split once, before any value is filled in, and no shell reads them. A value holds no slash, so it cannot name
a file elsewhere. At the beginning of a word it is neither an option nor ``@file``, which many compilers expand.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate, ControlsFile, Knobs, KnobValue
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.macros import without_replaced
from pytest_compileiq.toolchains.marker_values import arguments_by_name, freeze
from pytest_compileiq.toolchains.options import options_file, options_of

if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place


# Every tuned test file imports this module, even in runs that tune nothing, so it must import nothing heavy.


@arguments_by_name
@dataclass(frozen=True)
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
        environment: names of environment variables that the steps read, as in ``["HIP_PATH"]``. Where they are set,
            their values are recorded. Steps see no others but those that every compiler does, such as ``PATH``.
    """

    steps: str | Sequence[str]
    _: KW_ONLY
    sources: str | Sequence[str]
    defaults: Mapping[str, bool | int | float | str] | None = None
    defines: Mapping[str, int | float | str] | None = None
    output: Literal["library", "executable", "file"] = "library"
    objects: str = "*.o"
    depends: str | Sequence[str] = ()
    target: str | None = None
    version: str | None = None
    environment: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        freeze(self, "steps", "sources", "depends", "environment", optional=("defaults", "defines"))

    def resolve(self, place: Place) -> Builder:
        from pytest_compileiq.toolchains.command.builder import resolve  # heavy, and not needed to collect tests

        return resolve(self, place)


OPTIONS = "options"
OWN_PLACES = frozenset({"source", "sources", "out_dir", "out", OPTIONS})

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WHOLE_WORDS = ("{sources}", "{options}")
_OPTION = re.compile(r"--?[A-Za-z0-9][!-~]*")
_NAMES_THE_HOST = re.compile(r"(?:^|.*=)native")
_LONGEST_VALUE = 50_000

Step = tuple[str, ...]


@dataclass(frozen=True)
class Template:
    """Steps as words with places in them, and the value of each place in the baseline."""

    steps: tuple[Step, ...]
    defaults: Mapping[str, str]
    defines: tuple[str, ...] = ()

    def words(self, knobs: Knobs, own: Mapping[str, Sequence[str]]) -> list[list[str]]:
        """The steps, filled in with ``knobs``, which ``render`` has checked, and the plugin's ``own`` places."""
        values = {name: (str(knobs.get(name, default)),) for name, default in self.defaults.items()}
        options = (*without_replaced(self.defines, knobs), *options_of(knobs))
        places = {OPTIONS: options, **values, **own}
        return [_filled(step, places) for step in self.steps]

    def render(self, candidate: Candidate) -> ControlsFile:
        if candidate.blob is not None:
            raise MarkerError("Command puts named knobs into its steps, not an opaque controls blob: give named knobs")
        return options_file((self._line(name, value) for name, value in candidate.knobs.items()), candidate.knobs)

    def _line(self, name: str, value: KnobValue) -> str:
        is_option = name.startswith("-")
        if not (self.takes_options if is_option else name in self.defaults):
            place = OPTIONS if is_option else name
            meant = "" if is_option else did_you_mean(name, self.defaults)
            raise MarkerError(
                f"knob {name!r} has no place in Command's steps{meant}: write {{{place}}} where it belongs"
            )
        if not is_option:
            return f"{name}={_value(name, value, self.steps)}"
        option = f"{name}{_text(name, value)}"
        if not _OPTION.fullmatch(option):
            raise MarkerError(
                f"knob {name!r} = {value!r}: {option[:200]!r} is not one option; expected letters, digits and signs "
                "without blanks, as in -unroll-threshold=100"
            )
        return option

    @property
    def takes_options(self) -> bool:
        return any("{options}" in step for step in self.steps)


def read_template(
    steps: Sequence[str], defaults: Mapping[str, KnobValue], sources: int, defines: tuple[str, ...] = ()
) -> Template:
    """Split ``steps`` and check their places; ``sources`` is the number of sources."""
    split = tuple(_split(step) for step in steps)
    places = {place for step in split for word in step for place in _PLACE.findall(word)}
    if "out" not in places:
        raise MarkerError(f"Command: no step makes the output: write {{out}} in one, as in {steps[-1] + ' -o {out}'!r}")
    if "source" in places and sources != 1:
        raise MarkerError(f"Command: {{source}} is the only source, and there are {sources}: write {{sources}}")
    if nameless := sorted(places - OWN_PLACES - defaults.keys()):
        name = nameless[0]
        meant = did_you_mean(name, [*defaults, *OWN_PLACES])
        raise MarkerError(f"Command: {{{name}}} has no value in the baseline{meant}: give defaults={{{name!r}: …}}")
    if unused := sorted(defaults.keys() - (places - OWN_PLACES)):
        raise MarkerError(f"Command(defaults=…): no step has {{{unused[0]}}}, or it is one of the plugin's own places")
    template = Template(split, {name: _value(name, value, split) for name, value in defaults.items()}, defines)
    if defines and not template.takes_options:
        raise MarkerError("Command(defines=…): no step has a place for them: write {options} where they belong")
    return template


def is_recorded_template(command: Sequence[str]) -> bool:
    """Whether a recorded baseline comes from a template, whose places are left open."""
    return any("{out}" in word for word in command)


def _split(step: str) -> Step:
    try:
        words = tuple(shlex.split(step))
    except ValueError as error:
        raise MarkerError(f"Command({step!r}): {error}") from error
    if not words or _PLACE.search(words[0]):
        raise MarkerError(f"Command({step!r}): a step begins with the name of its program")
    for word in words:
        if _NAMES_THE_HOST.fullmatch(word):
            raise MarkerError(
                f"Command({step!r}): {word!r} is another processor on another machine: name it, and give target="
            )
        if whole := next((place for place in _WHOLE_WORDS if place in word and place != word), None):
            raise MarkerError(f"Command({step!r}): {whole} becomes several words, so it stands alone, not in {word!r}")
    return words


def _filled(step: Step, places: Mapping[str, Sequence[str]]) -> list[str]:
    words: list[str] = []
    for word in step:
        if word in _WHOLE_WORDS:
            words += places[word[1:-1]]
        else:
            words.append(_PLACE.sub(lambda place: places[place[1]][0], word))
    return words


def _value(name: str, value: KnobValue, steps: Collection[Step]) -> str:
    text = _text(name, value)
    begins_a_word = any(word.startswith(f"{{{name}}}") for step in steps for word in step)
    if begins_a_word and (not text or text[0] in "-@"):
        raise MarkerError(
            f"knob {name!r} = {value!r}: {{{name}}} begins a word, which this would make an option or a file of "
            "options; write a knob that is an option as '-name=' and give it a place with {options}"
        )
    return text


def _text(name: str, value: KnobValue) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise MarkerError(f"knob {name!r} = {value!r}: expected a text or a number; write 'true' or 'false'")
    text = str(value)
    if not text.isprintable() or len(text) > _LONGEST_VALUE:
        raise MarkerError(
            f"knob {name!r} = {text[:200]!r}: expected at most {_LONGEST_VALUE} characters, none of them unprintable"
        )
    if "/" in text or "/" in name:
        raise MarkerError(
            f"knob {name!r} = {text[:200]!r}: a knob names no path; list files in sources= or depends=, "
            "where they are fingerprinted"
        )
    if _NAMES_THE_HOST.fullmatch(f"{name}{text}" if name.startswith("-") else text):
        raise MarkerError(f"knob {name!r} = {text!r} is another processor on another machine: name it")
    return text
