"""Watches what Triton's JIT launches, from the program's import of Triton on: which kernels, on what, how often.

Every launch by ``kernel[grid](…)`` goes through ``JITFunction.run``, also those of ``@triton.autotune``, of
``@triton.heuristics`` and of libraries above. It returns the compiled kernel, which says what it is specialised for. A
compiled kernel that is launched itself, as ``kernel.warmup(…)[grid](…)``, is counted too. Nothing waits for the GPU and
nothing is read from it, and no key of Triton's caches changes. Who imports no Triton pays for three names in
``sys.meta_path``.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .cffi_hook import AfterImport
from .shapes import DESCRIBE, Describing, told_of_shape
from .values import Refused

SCHEMA = 1
_MOST_KERNELS = 4096
_MOST_CALLS = 64  # of a specialisation: grids and arguments that are told apart
_UNKNOWN = "is of a Triton that is not known here ({}: {!s:.200})"
_DEFAULT = type("default", (), {})()  # what an argument is that a launch leaves out


class _Compiled:
    """A compiled kernel that was loaded: its launches by grid and arguments, and what it is specialised for."""

    __slots__ = ("arguments", "calls", "is_known", "name", "others", "told")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_known = False  # how it is launched
        self.told: dict[str, Any] = {}
        self.arguments: list[tuple[int, str]] = []
        self.calls: dict[Any, int] = {}
        self.others = 0


class LaunchCounters:
    """Counts launches, and writes ``account`` when the interpreter ends; ``contents`` takes PTX by its SHA-256.

    Nothing here raises into the program: the first failure is kept, and told at the end.
    """

    def __init__(self, account: str, contents: str) -> None:
        self.is_open = True
        self._account = account
        self._contents = contents
        self._failure: str | None = None
        self._lock = threading.RLock()  # a finaliser may launch a kernel while this thread is in here
        self._process = os.getpid()
        self._compiled: list[_Compiled] = []
        self._loaded: dict[int, tuple[weakref.ref[Any], _Compiled]] = {}  # by the kernel's address
        self.timing: set[int] = set()  # the threads that try configs of @triton.autotune
        self._timed = 0
        os.register_at_fork(after_in_child=self._close)
        atexit.register(self._write)

    def begin(self) -> None:
        """Leave an empty account: a program that has Triton and fails to write one does not pass for one without."""
        if self.is_open:
            open(self._account, "w", encoding="utf-8").close()

    def fail(self, error: BaseException) -> None:
        self._failure = self._failure or f"{type(error).__name__}: {error}"

    def loaded(self, kernel: Any) -> _Compiled:
        """What is known of a compiled kernel, which is neither kept alive nor changed: frameworks pickle kernels."""
        if known := self._found(kernel):
            return known
        place, known = id(kernel), _Compiled(str(kernel.name))
        self._loaded[place] = weakref.ref(kernel, lambda _: self._loaded.pop(place, None)), known
        if len(self._compiled) == _MOST_KERNELS:
            self.fail(OverflowError(f"more than {_MOST_KERNELS} kernels were compiled"))
        if len(self._compiled) < _MOST_KERNELS:
            self._compiled.append(known)
        return known

    def _found(self, kernel: Any) -> _Compiled | None:
        found = self._loaded.get(id(kernel))
        return found[1] if found is not None and found[0]() is kernel else None

    def launched(self, kernel: Any, grid: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        try:
            known = self._found(kernel)
            if known is None or not known.is_known:
                known = self._described(kernel)
            if self.timing and threading.get_ident() in self.timing:
                self._timed += 1
                return
            count = len(arguments)
            given = [
                arguments[place] if place < count else named.get(name, _DEFAULT) for place, name in known.arguments
            ]
            call = tuple(grid), tuple([_DESCRIBE[type(each)](each) for each in given])
            with self._lock:
                if call in known.calls or len(known.calls) < _MOST_CALLS:
                    known.calls[call] = known.calls.get(call, 0) + 1
                else:
                    known.others += 1
        except Exception as error:
            self.fail(error)

    def _described(self, kernel: Any) -> _Compiled:
        if hasattr(kernel, "finalize_compile"):  # a promise of one, which the launch has waited for
            kernel = kernel.result()
        known = self.loaded(kernel)
        if known.is_known:
            return known
        told: dict[str, Any] = {"file": "", "function": known.name, "module": "", "ptx": None, "why": None}
        named: list[tuple[int, str]] = []
        try:  # not under the lock: a kernel's attributes are Triton's and the program's code
            function = getattr(kernel.src, "fn", None)
            if function:
                plain = function.fn
                told["file"] = os.path.abspath(plain.__code__.co_filename)
                told.update(function=plain.__qualname__, module=plain.__module__)
            told.update(_specialisation(kernel))
            ptx = kernel.asm["ptx"].encode()
            digest = hashlib.sha256(ptx).hexdigest()
            with open(os.path.join(self._contents, digest), "wb") as stream:
                stream.write(ptx)
            told["ptx"] = {"sha256": digest, "size": len(ptx)}
            signature, parameters = told["signature"], function.params if function else ()
            named = [(each.num, each.name) for each in parameters if each.name in signature]
        except Refused as why:
            told["why"] = str(why)
        except Exception as error:  # of a Triton that has its PTX or its target in another place
            told["why"] = _UNKNOWN.format(type(error).__name__, error)
        with self._lock:
            if not known.is_known:
                known.told, known.arguments, known.is_known = told, named, True
        return known

    def _close(self) -> None:
        self.is_open = False

    def _write(self) -> None:
        if os.getpid() != self._process or "triton.runtime.jit" not in sys.modules:
            return
        self.is_open = False
        try:
            told = json.dumps(self._told(list(self._compiled)))
        except Exception as error:
            self.fail(error)
            told = json.dumps(self._told([]))
        with contextlib.suppress(OSError), open(self._account, "w", encoding="utf-8") as stream:
            stream.write(told)

    def _told(self, compiled: list[_Compiled]) -> dict[str, Any]:
        launched = [each for each in compiled if each.is_known and (each.calls or each.others)]
        return {
            "schema": SCHEMA,
            "triton": str(getattr(sys.modules.get("triton"), "__version__", "unknown")),
            "failure": self._failure,
            "timed": self._timed,
            "unseen": sorted({each.name for each in compiled if not each.is_known}),
            "compiled": [
                {
                    **each.told,
                    "others": each.others,
                    "calls": [
                        {"grid": list(map(int, grid[:3])), "arguments": told_of_shape(arguments), "calls": count}
                        for (grid, arguments), count in each.calls.items()
                    ],
                }
                for each in launched
            ],
        }


def install(account: str, contents: str) -> None:
    """Watch Triton from its import on; see ``LaunchCounters``."""
    launches = LaunchCounters(account, contents)
    for name, watch in (
        ("triton.runtime.jit", _watch_functions),
        ("triton.compiler.compiler", _watch_compiled_kernels),
        ("triton.runtime.autotuner", _watch_tuners),
    ):
        watched = functools.partial(_watch, watch, launches)
        if name in sys.modules:
            watched(sys.modules[name])
        else:
            sys.meta_path.insert(0, AfterImport(name, watched))


def _watch(watch: Callable[[Any, LaunchCounters], None], launches: LaunchCounters, module: Any) -> None:
    try:
        watch(module, launches)
    except Exception as error:  # of a Triton that is made in another way
        launches.fail(error)


def _watch_functions(module: Any, launches: LaunchCounters) -> None:
    launches.begin()
    run = module.JITFunction.run

    @functools.wraps(run)
    def watched(self: Any, *arguments: Any, **named: Any) -> Any:
        if not launches.is_open or named.get("warmup") or "grid" not in named:
            return run(self, *arguments, **named)
        grid = named["grid"]
        if callable(grid):  # what it computes from the launch, once
            computed: list[Any] = []

            def noted(meta: Any) -> Any:
                computed[:] = [grid(meta)]
                return computed[0]

            kernel = run(self, *arguments, **{**named, "grid": noted})
            grid = computed[0] if computed else ()
        else:
            kernel = run(self, *arguments, **named)
        if kernel is not None:
            launches.launched(kernel, grid, arguments, named)
        return kernel

    module.JITFunction.run = watched


def _watch_compiled_kernels(module: Any, launches: LaunchCounters) -> None:
    taken, load = module.CompiledKernel.__getitem__, module.CompiledKernel._init_handles

    @functools.wraps(taken)
    def item(self: Any, grid: Any) -> Any:
        launch = taken(self, grid)

        def watched(*arguments: Any, **named: Any) -> Any:
            result = launch(*arguments, **named)
            if launches.is_open:
                launches.launched(self, grid, arguments, {})
            return result

        return watched

    @functools.wraps(load)
    def loading(self: Any) -> Any:
        if launches.is_open:
            try:
                launches.loaded(self)
            except Exception as error:
                launches.fail(error)
        return load(self)

    module.CompiledKernel.__getitem__ = item
    module.CompiledKernel._init_handles = loading


def _watch_tuners(module: Any, launches: LaunchCounters) -> None:
    bench = module.Autotuner._bench

    @functools.wraps(bench)
    def watched(self: Any, *arguments: Any, **named: Any) -> Any:
        thread = threading.get_ident()
        is_outermost = thread not in launches.timing
        launches.timing.add(thread)
        try:
            return bench(self, *arguments, **named)
        finally:
            if is_outermost:
                launches.timing.discard(thread)

    module.Autotuner._bench = watched


def _describer(kind: type) -> Any:
    """What describes an object of a type: an integer's value, a tensor's type and extents; no data is read."""
    if hasattr(kind, "data_ptr") or kind.__name__ == "TensorDescriptor":
        return lambda tensor: (getattr(tensor, "dtype", kind.__name__), tuple(getattr(tensor, "shape", ())))
    return DESCRIBE[kind]


_DESCRIBE = Describing(_describer)

# What Triton's compiler fills in by itself, for its target and from its own files.
_OF_THE_TARGET = frozenset(
    {"arch", "supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "max_num_imprecise_acc_default"}
)
_OF_THE_INSTALLATION = frozenset({"extern_libs", "backend_name", "ptx_options", "ir_override", "instrumentation_mode"})
_ALWAYS_TOLD = ("num_warps", "num_stages")
_LONGEST = 1000  # of a text
_UNSAID = "tl.", "(", "None"  # how texts begin that a marker reads as something else than texts


def _specialisation(kernel: Any) -> dict[str, Any]:
    """The signature, constexprs, options and target of a ``CompiledKernel``, or ``why`` no ``Triton(…)`` says them."""
    metadata = kernel.metadata
    if metadata.target.backend != "cuda":
        raise Refused(f"is compiled for {metadata.target.backend}")
    told = {"capability": int(metadata.target.arch), "ptx_options": getattr(metadata, "ptx_options", None)}
    try:
        told["options"] = _options(metadata)
        told["signature"], told["constexprs"] = _arguments(kernel.src, metadata)
        return {**told, "why": None}
    except Refused as reason:
        why = str(reason)
    except Exception as error:  # of a Triton that keeps it in another way
        why = _UNKNOWN.format(type(error).__name__, error)
    return {"options": {}, **told, "signature": {}, "constexprs": {}, "why": why}


def _arguments(source: Any, metadata: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    if not hasattr(source, "fn"):
        raise Refused("is compiled from an intermediate representation, and from no function")
    if not source.fn.fn.__qualname__.isidentifier():
        raise Refused("is defined within a function or a class, where no test can name it")
    if getattr(source.fn, "is_gluon", bool)():
        raise Refused("is written in Gluon, which is not compiled ahead of time here")
    for name in ("ir_override", "instrumentation_mode"):
        if getattr(metadata, name, None):
            raise Refused(f"is compiled with {name}={getattr(metadata, name)!r:.60}")
    signature: dict[str, Any] = {}
    constexprs: dict[str, Any] = {}
    for place, parameter in enumerate(source.fn.params):
        name, kind = parameter.name, source.signature[parameter.name]
        if parameter.is_constexpr or (kind == "constexpr" and source.constants[(place,)] is None):
            constexprs[name] = _constant(name, source.constants[(place,)])
        else:
            signature[name] = _kind(name, kind, (place,), source)
    return signature, constexprs


def _kind(name: str, kind: Any, path: tuple[int, ...], source: Any) -> Any:
    """The type of an argument with what is known of its value; a list of them for a tuple."""
    if isinstance(kind, (tuple, list)):
        return [_kind(name, inner, (*path, place), source) for place, inner in enumerate(kind)]
    if kind == "constexpr":
        value = source.constants[path]
        if value is None:
            return None
        if type(value) is not int or value != 1:
            raise Refused(f"is given a constant as {name}, which is no tl.constexpr")
        return "i32:1"
    hints = [tuple(hint) for hint in source.attrs.get(path, ())]
    if hints in ([], [("tt.divisibility", 16)]):
        return f"{kind}:16" if hints else str(kind)
    raise Refused(f"is specialised by {hints[0][0]} of {name}, which Triton(…) cannot say")


def _constant(name: str, value: Any) -> Any:
    """A constexpr's value; a tuple is a list, a dtype ``"tl.float16"``."""
    if type(value).__name__ == "constexpr":
        value = value.value
    if type(value).__name__ == "dtype" and type(value).__module__.startswith("triton"):
        return f"tl.{repr(value).rpartition('.')[2]}"
    if isinstance(value, (tuple, list)):
        return [_constant(name, inner) for inner in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= _LONGEST and not value.startswith(_UNSAID):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, int) or (hasattr(value, "__index__") and not hasattr(value, "data_ptr")):
        return int(value)
    told = "a function" if hasattr(value, "fn") else f"{value!r:.60}"
    raise Refused(f"is given {told} as {name}, which cannot be written down")


def _options(metadata: Any) -> dict[str, Any]:
    """The launch options that are not Triton's own defaults, and how many warps and stages there are in any case."""
    kind = sys.modules["triton.backends.nvidia.compiler"].CUDAOptions
    defaults = {name: getattr(kind, name, None) for name in kind.__dataclass_fields__}
    # The field's own default is never used: Triton 3.9 fuses, and 3.10 is announced not to.
    knobs = getattr(sys.modules.get("triton.knobs"), "language_knobs", None)
    fusion = getattr(vars(knobs).get("default_fp_fusion"), "default", None) if knobs else None
    defaults["enable_fp_fusion"] = fusion
    options = {}
    for name in defaults.keys() - _OF_THE_TARGET - _OF_THE_INSTALLATION:
        value, default = (
            list(each) if isinstance(each, tuple) else each for each in (getattr(metadata, name, None), defaults[name])
        )
        if name in _ALWAYS_TOLD or value != default:
            options[name] = _constant(name, value)
    return dict(sorted(options.items()))
