"""What the watching of Triton's JIT does where Triton is in no state that a real launch shows: order, bounds, failure."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_compileiq.capture.inside import triton_hook
from pytest_compileiq.capture.inside.triton_hook import LaunchCounters


class Kernel:
    """A compiled kernel of no Triton that is known."""

    def __init__(self, name: str = "k", ptx: str = ".version 9.3", **changed: Any) -> None:
        self.name = name
        self.asm = {"ptx": ptx}
        self.metadata = SimpleNamespace(**{"target": SimpleNamespace(backend="cuda", arch=90)} | changed)
        plain = SimpleNamespace(
            __code__=SimpleNamespace(co_filename="k.py"), __qualname__=name, __module__="k", __name__=name
        )
        self.src = SimpleNamespace(fn=SimpleNamespace(fn=plain, params=[]))

    def __getitem__(self, grid: Any) -> Any:
        return lambda *arguments, **named: "launched"

    def _init_handles(self) -> None:
        """Nothing to load."""


@pytest.fixture
def launches(tmp_path, monkeypatch) -> LaunchCounters:
    monkeypatch.setattr(triton_hook.atexit, "register", lambda _: None)
    monkeypatch.setattr(triton_hook.os, "register_at_fork", lambda **_: None)
    monkeypatch.setitem(triton_hook.sys.modules, "triton.runtime.jit", SimpleNamespace())
    return LaunchCounters(str(tmp_path / "account"), str(tmp_path))


def told(launches: LaunchCounters, tmp_path: Path) -> dict[str, Any]:
    launches._write()
    return json.loads((tmp_path / "account").read_text())


def watched(launches: LaunchCounters, run: Any) -> Any:
    """An object of a JITFunction whose ``run`` is watched."""
    module = SimpleNamespace(JITFunction=type("JITFunction", (), {"run": run}))
    triton_hook._watch_functions(module, launches)
    return module.JITFunction()


def test_a_kernel_of_an_unknown_triton_is_counted_and_the_reason_told(launches, tmp_path):
    kernel = Kernel()
    function = watched(launches, lambda self, *arguments, grid, warmup=False: kernel)
    for _ in range(3):
        assert function.run(1, grid=(4,)) is kernel
    (compiled,) = told(launches, tmp_path)["compiled"]
    assert compiled["calls"] == [{"grid": [4], "arguments": [], "calls": 3}]
    assert compiled["why"].startswith("is of a Triton that is not known here (")
    assert (tmp_path / compiled["ptx"]["sha256"]).read_text() == ".version 9.3"  # which is all that is recorded


def test_of_a_kernel_without_ptx_the_reason_is_told(launches, tmp_path):
    kernel = Kernel()
    del kernel.asm["ptx"]
    watched(launches, lambda self, *, grid: kernel).run(grid=(1,))
    (compiled,) = told(launches, tmp_path)["compiled"]
    assert compiled["ptx"] is None
    assert compiled["why"].startswith("is of a Triton that is not known here (KeyError")


def test_a_kernel_that_is_compiled_from_no_function_is_its_ptx(launches, tmp_path):
    kernel = Kernel("from_ttir")
    kernel.src = SimpleNamespace(ext="ttir")
    watched(launches, lambda self, *, grid: kernel).run(grid=(1, 2, 3, 4))
    (compiled,) = told(launches, tmp_path)["compiled"]
    assert (compiled["function"], compiled["file"], compiled["calls"][0]["grid"]) == ("from_ttir", "", [1, 2, 3])
    assert compiled["ptx"] is not None
    assert "is of a Triton that is not known here" in compiled["why"]  # since this one has no options either


def test_a_kernel_is_neither_changed_nor_kept_alive_since_frameworks_pickle_and_free_them(launches, tmp_path):
    kernels = [Kernel()]
    as_it_was = dict(vars(kernels[0]))
    function = watched(launches, lambda self, *, grid: kernels[-1])
    function.run(grid=(1,))
    assert vars(kernels[0]) == as_it_was
    freed = weakref.ref(kernels.pop())
    assert freed() is None
    for n in range(20):  # some of them where the first one lay
        kernels[:] = [Kernel(f"k{n}")]
        function.run(grid=(1,))
    assert [each["function"] for each in told(launches, tmp_path)["compiled"]] == ["k", *(f"k{n}" for n in range(20))]


def test_a_kernel_of_another_backend_is_refused(launches, tmp_path):
    kernel = Kernel(target=SimpleNamespace(backend="hip", arch="gfx942"))
    watched(launches, lambda self, *, grid: kernel).run(grid=(1,))
    assert told(launches, tmp_path)["compiled"][0]["why"] == "is compiled for hip"


def test_a_grid_is_computed_once_and_what_a_warm_up_compiles_is_no_launch(launches, tmp_path):
    computed = []

    def grid(meta: Any) -> tuple[int, ...]:
        computed.append(meta)
        return (meta["n"], 2)

    def run(self: Any, *, grid: Any, warmup: bool) -> Any:
        if not warmup:
            grid({"n": 7})
        return kernel

    kernel = Kernel()
    function = watched(launches, run)
    function.run(grid=grid, warmup=True)
    function.run(grid=grid, warmup=False)
    assert computed == [{"n": 7}]
    (compiled,) = told(launches, tmp_path)["compiled"]
    assert compiled["calls"] == [{"grid": [7, 2], "arguments": [], "calls": 1}]


def test_a_promised_kernel_is_counted_as_the_kernel_that_it_becomes(launches, tmp_path):
    kernel = Kernel()
    promised = SimpleNamespace(finalize_compile=None, result=lambda: kernel)
    answers = iter([promised, kernel])
    function = watched(launches, lambda self, *, grid: next(answers))
    function.run(grid=(1,))
    function.run(grid=(1,))
    (compiled,) = told(launches, tmp_path)["compiled"]
    assert [call["calls"] for call in compiled["calls"]] == [2]


def test_what_raises_raises_and_is_no_launch_and_nothing_of_ours_ever_raises(launches, tmp_path):
    def run(self: Any, *, grid: Any) -> Any:
        if grid == (0,):
            raise ValueError("the program's own")
        return object()  # no kernel at all

    function = watched(launches, run)
    with pytest.raises(ValueError, match="the program's own"):
        function.run(grid=(0,))
    function.run(grid=(1,))
    account = told(launches, tmp_path)
    assert account["compiled"] == []
    assert account["failure"]


def test_more_grids_than_are_told_apart_are_counted_together(launches, tmp_path):
    kernel = Kernel()
    function = watched(launches, lambda self, *, grid: kernel)
    for n in range(100):
        function.run(grid=(n,))
    (compiled,) = told(launches, tmp_path)["compiled"]
    assert (len(compiled["calls"]), compiled["others"]) == (triton_hook._MOST_CALLS, 36)


def test_what_autotune_tries_is_no_launch_of_the_program_also_where_it_fails(launches, tmp_path):
    kernel = Kernel()
    function = watched(launches, lambda self, *, grid: kernel)

    def bench(self: Any, fails: bool) -> None:
        function.run(grid=(1,))
        if fails:
            raise RuntimeError("out of resources")

    module = SimpleNamespace(Autotuner=type("Autotuner", (), {"_bench": bench}))
    triton_hook._watch_tuners(module, launches)
    module.Autotuner()._bench(False)
    with pytest.raises(RuntimeError):
        module.Autotuner()._bench(True)
    function.run(grid=(2,))
    account = told(launches, tmp_path)
    assert account["timed"] == 2
    assert [call["grid"] for call in account["compiled"][0]["calls"]] == [[2]]


def test_what_is_loaded_and_launched_by_something_else_is_named(launches, tmp_path):
    class Compiled(Kernel):
        pass

    module = SimpleNamespace(CompiledKernel=Compiled)
    triton_hook._watch_compiled_kernels(module, launches)
    Compiled("by_inductor")._init_handles()
    taken = Compiled("taken")
    taken._init_handles()
    assert taken[(3,)](1, 2) == "launched"
    account = told(launches, tmp_path)
    assert account["unseen"] == ["by_inductor"]
    assert account["compiled"][0]["function"] == "taken"


def test_a_triton_made_in_another_way_is_said_and_left_alone(launches, tmp_path):
    triton_hook._watch(triton_hook._watch_functions, launches, SimpleNamespace())
    assert "JITFunction" in told(launches, tmp_path)["failure"]


def test_a_process_that_forked_off_counts_and_writes_nothing(launches, tmp_path):
    function = watched(launches, lambda self, *, grid: Kernel())
    launches._close()
    function.run(grid=(1,))
    launches._process += 1
    launches._write()
    assert not (tmp_path / "account").read_text()  # it is there since Triton is: without an end it is no account
