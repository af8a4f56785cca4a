"""Instantiates kernels that nothing in their source instantiates, and finds which entry each expression names.

nvcc compiles a file of ours, in the build's directory, that includes the source and holds for each expression an empty
kernel, a *label*, whose template argument is the address of the kernel that the expression names. So nvcc's own front
end reads the expression, however it is spelt, instantiates the kernel, and writes the kernel's declaration into the
label's mangled name. The names cost no second compilation, and follow a macro that a template argument depends on.
The labels are left out of everything that is said of the build.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_compileiq.errors import BuildError, MarkerError, Signal
from pytest_compileiq.machine_code.cubin import Cubin
from pytest_compileiq.machine_code.names import declaration, readable, without_parameters
from pytest_compileiq.model import LONGEST_TEXT
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.nvidia.tools import OF_A_TEMPLATE, first_error, words_to_read


class NoSuchKernel(Signal):
    """A name means no kernel, or several; the message goes on behind ``k.cubin has``."""


def kernel_named(name: str, symbols: Mapping[str, str]) -> str:
    """The symbol of the kernel that ``name`` means.

    Args:
        name: the build's name or the symbol; else a C++ name, blanks in it no matter: with parameters, without, or
            without template arguments and namespaces too.
        symbols: what the build calls each kernel → its symbol in the file.

    Raises:
        NoSuchKernel: no kernel has the name, or several have.
    """
    if name in symbols:
        return symbols[name]

    def given_names(key: str, symbol: str) -> set[str]:
        return {key, symbol}

    def whole_names(_: str, symbol: str) -> set[str]:
        return {declaration(symbol), _name(symbol), readable(symbol)}

    def short_names(key: str, symbol: str) -> set[str]:
        plain = {_template_of(name) for name in (key, _name(symbol))}
        return plain | {name.rpartition("::")[2] for name in plain}

    for names_of in (given_names, whole_names, short_names):
        meant = {symbol: key for key, symbol in symbols.items() if _tight(name) in map(_tight, names_of(key, symbol))}
        if len(meant) == 1:
            return next(iter(meant))
        if meant:
            several = ", ".join(sorted(map(_shown, meant.values())))
            raise NoSuchKernel(f"several kernels {name!r}: {several}")
    shown = sorted(map(_shown, symbols))
    raise NoSuchKernel(f"no kernel {name!r}{did_you_mean(name, shown)}; its kernels: {', '.join(shown) or 'none'}")


def _template_of(name: str) -> str:
    """``name`` without its template arguments."""
    return name.partition("<")[0]


def _tight(name: str) -> str:
    """``name`` without the blanks that C++ does not need."""
    return re.sub(r"(?<!\w) | (?!\w)", "", " ".join(name.split()))


def _name(symbol: str) -> str:
    return without_parameters(declaration(symbol))


def _shown(key: str) -> str:
    return key if declaration(key) == key else readable(key)


_FILE = "instantiate="  # what stands for our file in nvcc's messages; its line is the expression's number
_LABEL = re.compile(r"_ZN16pytest_compileiq5labelILi(?P<number>\d+)E")
_ADDRESS = re.compile(r".*label<\d+, |>\(\)$")
_DECLARATION = "namespace pytest_compileiq { template <int, class F, F> __global__ void label() {} }\n"
_REFUSED = re.compile(rf"{_FILE}(?:\((?P<edg>\d+)\)|:(?P<gcc>\d+):\d+): (?:fatal )?error: (?P<why>.*)")
_HEADERS = (".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc")


@dataclass(frozen=True)
class Instantiations:
    """The kernels that a build instantiates; without expressions, those that the source itself does."""

    source: str  # relative to the directory that nvcc runs in
    expressions: tuple[str, ...]  # each names a kernel in C++: reduce<float, 256>, or a cast that chooses an overload

    @property
    def recorded(self) -> tuple[str, ...]:
        """The expressions as words of the recorded command."""
        return tuple(f"{OF_A_TEMPLATE}{expression}" for expression in self.expressions)

    @property
    def words_to_read(self) -> tuple[str, ...]:
        """nvcc's words for what a build reads, our own file left out."""
        return words_to_read(self.source, as_template=bool(self.expressions))

    def words_to_compile(self, out_dir: Path) -> tuple[str, ...]:
        """nvcc's words for the file to compile, which is written into ``out_dir`` if it is ours."""
        if not self.expressions:
            return (self.source,)
        # The source is named by -include, relative to nvcc's directory, so that __FILE__ and the paths of what it
        # includes do not depend on where ours lies. Ours has the source's name, as names private to a file hold it.
        wrapper = out_dir / f"{Path(self.source).stem}.cu"
        lines = (
            f"template __global__ void pytest_compileiq::label<{number}, decltype(+({kernel})), ({kernel})>();\n"
            for number, kernel in enumerate(self.expressions, start=1)
        )
        wrapper.write_text("".join([_DECLARATION, f'#line 1 "{_FILE}"\n', *lines]), encoding="utf-8")
        return ("-include", self.source, str(wrapper))

    def first_error(self, output: str) -> str:
        """The line of nvcc's output that says what is wrong, with the expression in place of our file's line."""
        line = first_error(output)
        refused = _REFUSED.fullmatch(line)
        number = int(refused["edg"] or refused["gcc"]) if refused else 0
        if refused is None or not 0 < number <= len(self.expressions):
            return line
        remedy = (
            ": give all its template arguments, and choose an overload by a cast, as in '(void (*)(float *)) scale'"
            if "cannot determine which" in refused["why"]
            else ""
        )
        return f"instantiate={self.expressions[number - 1]!r}: {refused['why']}{remedy}"

    def named(self, cubin: Cubin) -> Cubin:
        """``cubin`` without the labels; an entry that an expression names goes by it, as written.

        Digests are those that other entries do not enter, the labels least of all: a macro may give an entry another
        name, and a program has other kernels beside it. Other instantiations of a template are left out if a macro, or
        another name, may stand in an expression of it: which others there are would depend on the macro.

        Raises:
            BuildError: an expression names something else than one entry, such as a ``__device__`` function.
        """
        if not self.expressions:
            return cubin
        labels = {int(match["number"]): s for s in cubin.symbols.values() if (match := _LABEL.match(s))}
        symbols = {key: symbol for key, symbol in cubin.symbols.items() if not _LABEL.match(symbol)}
        keys = {
            expression: self._entry(expression, labels.get(number, ""), symbols)
            for number, expression in enumerate(self.expressions, start=1)
        }
        varying = _varying(keys)
        keys |= {key: key for key in symbols if key not in keys.values() and _template(key) not in varying}
        entries = {name: replace(cubin.entries[key], symbol=None if name == key else key) for name, key in keys.items()}
        return replace(cubin, entries=entries, symbols={name: symbols[key] for name, key in keys.items()})

    def _entry(self, expression: str, label: str, symbols: Mapping[str, str]) -> str:
        fitting = [key for key, symbol in symbols.items() if _is_of(declaration(label), symbol)]
        if len(fitting) != 1:
            raise BuildError(
                f"instantiate={expression!r} names no kernel (__global__ function) of {self.source}: nvcc reads it as "
                f"{_ADDRESS.sub('', declaration(label))}",
                kind="compile",
            )
        return fitting[0]


def instantiations(source: str, given: object, output: str) -> Instantiations:
    """Check the marker's ``instantiate=``; MarkerError where it is not usable."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise MarkerError(f"Nvcc(instantiate={given!r}): expected a list of kernels, as in ['reduce<float, 256>']")
    expressions = tuple(_checked(expression) for expression in given)
    if twice := next((each for each in expressions if expressions.count(each) > 1), None):
        raise MarkerError(f"Nvcc(instantiate={given!r}): {twice!r} stands twice")
    if expressions and output != "cubin":
        raise MarkerError(
            f"Nvcc(output={output!r}, instantiate={given!r}): a {output} instantiates what its host code launches: "
            "leave instantiate= out, or use output='cubin'"
        )
    if expressions and "," in source:
        raise MarkerError(f"Nvcc({source!r}, instantiate={given!r}): nvcc splits paths at commas: rename the file")
    if not expressions and source.endswith(_HEADERS):
        raise MarkerError(
            f"Nvcc({source!r}): a header is compiled for the kernels that are instantiated: "
            "name them, as in instantiate=['reduce<float, 256>']"
        )
    return Instantiations(source, expressions)


def _checked(expression: object) -> str:
    if not isinstance(expression, str) or not expression.strip() or not expression.isprintable():
        raise MarkerError(
            f"Nvcc(instantiate=[{expression!r}]): expected what names a kernel in C++, as in 'reduce<float, 256>'"
        )
    if len(OF_A_TEMPLATE) + len(expression) > LONGEST_TEXT:
        raise MarkerError(
            f"Nvcc(instantiate=[{expression[:80]!r}…]): {len(expression)} characters, and an artifact holds "
            f"{LONGEST_TEXT - len(OF_A_TEMPLATE)}: give its types shorter names, with using"
        )
    return expression.strip()


def _varying(keys: Mapping[str, str]) -> set[str]:
    """The templates of the entries in ``keys`` that their expressions do not spell as the compiler does."""
    other = (key for expression, key in keys.items() if _tight(expression) != _tight(_name(key)))
    return {_template(key) for key in other} - {""}


def _template(key: str) -> str:
    """The template that an entry is an instantiation of; empty for another function."""
    name = _name(key)
    return _template_of(name) if name.endswith(">") else ""


def _is_of(label: str, symbol: str) -> bool:
    """Whether the demangled ``label`` ends in the address of ``symbol``."""
    # The C++ runtime writes "void (*)(float*), &(void scale<float>(float*))>()", for C functions as for templates, and
    # "void (*)(float*), &ns::scale>()" for others in a namespace.
    declared, name = declaration(symbol), _name(symbol)
    if declared == symbol:
        address = rf"void \(\*\)(\(.*\))(?: noexcept)?, &\({re.escape(symbol)}\1\)"
    else:
        parameters = re.escape(declared.partition(name)[2])
        qualified = rf"void \(\*\){parameters}(?: noexcept)?, &{re.escape(name)}"
        address = rf"(?:, &\({re.escape(declared)}\)|{qualified})"
    return re.search(rf"{address}>\(\)$", label) is not None
