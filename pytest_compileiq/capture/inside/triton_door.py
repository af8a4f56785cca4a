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
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .cffi_door import AfterImport
from .shapes import DESCRIBE, told_of_shape
from .triton_kernel import specialisation, where
from .values import Refused

SCHEMA = 1
_MOST_KERNELS = 4096
_MOST_CALLS = 64  # of a specialisation: grids and arguments that are told apart
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


class Launches:
    """Counts what is launched, and writes it to ``account`` when the interpreter ends.

    Args:
        account: the file.
        contents: a directory that takes each kernel's PTX, in files named by their SHA-256.

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
        self._timing: set[int] = set()  # the threads that try configs
        self._timed = 0
        os.register_at_fork(after_in_child=self._close)
        atexit.register(self._write)

    def begin(self) -> None:
        """Leave an empty account: a program that has Triton and fails to write one does not pass for one without."""
        if self.is_open:
            with open(self._account, "w", encoding="utf-8"):
                pass

    def fail(self, error: BaseException) -> None:
        """Keep the first failure of the watching itself."""
        self._failure = self._failure or f"{type(error).__name__}: {error}"

    def loaded(self, kernel: Any) -> _Compiled:
        """What is known of a compiled kernel, which is neither kept alive nor changed: frameworks pickle kernels."""
        place = id(kernel)
        found = self._loaded.get(place)
        if found is not None and found[0]() is kernel:
            return found[1]
        known = _Compiled(str(kernel.name))
        self._loaded[place] = weakref.ref(kernel, lambda _: self._loaded.pop(place, None)), known
        if len(self._compiled) == _MOST_KERNELS:
            self.fail(OverflowError(f"more than {_MOST_KERNELS} kernels were compiled"))
        if len(self._compiled) < _MOST_KERNELS:
            self._compiled.append(known)
        return known

    def launched(self, kernel: Any, grid: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Count a launch."""
        try:
            found = self._loaded.get(id(kernel))
            known = found[1] if found is not None and found[0]() is kernel else None
            if known is None or not known.is_known:
                known = self._described(kernel)
            if self._timing and threading.get_ident() in self._timing:
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

    @contextlib.contextmanager
    def timing(self) -> Any:
        """What is launched within is what ``@triton.autotune`` tries, and not what the program makes of it."""
        thread = threading.get_ident()
        is_outermost = thread not in self._timing
        self._timing.add(thread)
        try:
            yield
        finally:
            if is_outermost:
                self._timing.discard(thread)

    def _described(self, kernel: Any) -> _Compiled:
        """What is known of a kernel, which is described the first time."""
        if hasattr(kernel, "finalize_compile"):  # a promise of one, which the launch has waited for
            kernel = kernel.result()
        known = self.loaded(kernel)
        if known.is_known:
            return known
        told: dict[str, Any] = {"file": "", "function": known.name, "module": "", "ptx": None, "why": None}
        named: list[tuple[int, str]] = []
        try:  # not under the lock: a kernel's attributes are Triton's and the program's code
            function = getattr(kernel.src, "fn", None)
            told.update(where(function) if function else {})
            told.update(specialisation(kernel), ptx=self._kept(kernel.asm["ptx"].encode()))
            signature, parameters = told["signature"], function.params if function else ()
            named = [(each.num, each.name) for each in parameters if each.name in signature]
        except Refused as why:
            told["why"] = str(why)
        except Exception as error:  # of a Triton that has its PTX or its target in another place
            told["why"] = f"is of a Triton that is not known here ({type(error).__name__}: {error!s:.200})"
        with self._lock:
            if not known.is_known:
                known.told, known.arguments, known.is_known = told, named, True
        return known

    def _kept(self, ptx: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(ptx).hexdigest()
        with open(os.path.join(self._contents, digest), "wb") as stream:
            stream.write(ptx)
        return {"sha256": digest, "size": len(ptx)}

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
                {**each.told, "others": each.others, "calls": list(map(_told_of_call, each.calls.items()))}
                for each in launched
            ],
        }


def install(account: str, contents: str) -> None:
    """Watch Triton from its import on; see ``Launches``."""
    launches = Launches(account, contents)
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


def _watch(watch: Callable[[Any, Launches], None], launches: Launches, module: Any) -> None:
    try:
        watch(module, launches)
    except Exception as error:  # of a Triton that is made in another way
        launches.fail(error)


def _watch_functions(module: Any, launches: Launches) -> None:
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


def _watch_compiled_kernels(module: Any, launches: Launches) -> None:
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


def _watch_tuners(module: Any, launches: Launches) -> None:
    bench = module.Autotuner._bench

    @functools.wraps(bench)
    def watched(self: Any, *arguments: Any, **named: Any) -> Any:
        with launches.timing():
            return bench(self, *arguments, **named)

    module.Autotuner._bench = watched


class _Describing(dict[type, Any]):
    """Type → what describes an object of it: an integer's value, a tensor's type and extents; no data is read."""

    def __missing__(self, kind: type) -> Any:
        is_tensor = hasattr(kind, "data_ptr") or kind.__name__ == "TensorDescriptor"
        describe = self[kind] = _of_tensor if is_tensor else DESCRIBE[kind]
        return describe


def _of_tensor(tensor: Any) -> Any:
    return getattr(tensor, "dtype", type(tensor).__name__), tuple(getattr(tensor, "shape", ()))


_DESCRIBE = _Describing()


def _told_of_call(call: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], int]) -> dict[str, Any]:
    (grid, arguments), count = call
    return {"grid": list(map(int, grid[:3])), "arguments": told_of_shape(arguments), "calls": count}
