"""Compiles one Triton kernel in its own process: ``python host.py JOB.json``. The plugin never imports it to compile.

Triton itself runs ptxas, with the flags that it adds, so the cubin is the one that production compiles.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

_LAUNCHED_BY = (
    "name", "shared", "num_warps", "num_ctas", "global_scratch_size", "global_scratch_align", "profile_scratch_size"
)  # fmt: skip


def main() -> int:
    """Write ``kernel.ptx``, ``kernel.cubin`` and ``kernel.json`` into the job's directory."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    out_dir = Path(job["out_dir"])
    sys.path[:0] = job["sys_path"]
    try:
        compiled = _compile(job)
    except Exception as error:  # Triton's own errors: the parent turns the last line into a sentence
        text = " ".join(str(error).split())
        print(f"error: {type(error).__name__}: {text[-1500:]}", file=sys.stderr)  # the reason follows the source
        return 1
    (out_dir / "kernel.ptx").write_text(compiled.asm["ptx"], encoding="utf-8")
    (out_dir / "kernel.cubin").write_bytes(compiled.asm["cubin"])
    described = {name: getattr(compiled.metadata, name, None) for name in _LAUNCHED_BY}
    (out_dir / "kernel.json").write_text(json.dumps(described | {"arguments": job["signature"]}), encoding="utf-8")
    return 0


def specialised(function: Any, kinds: dict[str, str], constexprs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the ``ASTSource`` for which Triton's JIT would compile ``function``.

    Args:
        kinds: argument → type, with ``:16`` for a value divisible by 16 and ``:1`` for the value 1.
        constexprs: argument → value; any argument may be None here.

    Raises:
        ValueError: an argument is missing or unknown, or the JIT would not specialise it this way.
    """
    names = list(function.arg_names)
    if unknown := sorted((kinds.keys() | constexprs.keys()) - set(names)):
        raise ValueError(f"{function.__name__} has no argument {unknown[0]!r}; its arguments: {', '.join(names)}")
    signature: dict[str, str] = {}
    values: dict[str, Any] = {}
    attributes = {}
    for number, parameter in enumerate(function.params):
        name = parameter.name
        if name not in kinds | constexprs:
            raise ValueError(f"the argument {name!r} of {function.__name__} is in neither signature nor constexprs")
        kind, _, hint = kinds.get(name, "constexpr").partition(":")
        if kind == "constexpr" and not parameter.is_constexpr and constexprs[name] is not None:
            raise ValueError(
                f"the argument {name!r} is no tl.constexpr: give its type in signature, 'i32:1' where it is 1"
            )
        _expect_as_the_jit(parameter, kind, hint)
        is_constant = kind == "constexpr" or hint == "1"  # the JIT makes a constant of an integer that is 1
        signature[name] = "constexpr" if is_constant else kind
        if is_constant:
            values[name] = constexprs.get(name, 1)
        elif hint:
            attributes[(number,)] = [["tt.divisibility", int(hint)]]
    return {"signature": signature, "constexprs": values, "attrs": attributes}


def _expect_as_the_jit(parameter: Any, kind: str, hint: str) -> None:
    """Raise ValueError if the JIT would never compile ``parameter`` as ``kind`` with ``hint``."""
    name, annotated = parameter.name, parameter.annotation_type
    if kind != "constexpr" and parameter.is_constexpr:
        raise ValueError(f"the argument {name!r} is a tl.constexpr: name it in constexprs")
    if kind != "constexpr" and annotated and kind != annotated:
        raise ValueError(f"the kernel annotates {name!r} as {annotated}, and the signature says {kind}")
    if kind != "constexpr" and parameter.is_const and not kind.startswith("*k"):
        raise ValueError(f"the kernel annotates {name!r} as constant: write '*k{kind.removeprefix('*')}'")
    never = parameter.do_not_specialize or (hint == "1" and annotated)
    if hint and (never or (hint == "16" and parameter.do_not_specialize_on_alignment)):
        raise ValueError(f"the JIT does not specialise {name!r}, as the kernel is declared: write {kind!r}")


def _compile(job: dict[str, Any]) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _function(Path(job["file"]), job["function"])
    source = ASTSource(fn=function, **specialised(function, job["signature"], job["constexprs"]))
    # Launches take arguments in the kernel's order, not in the marker's.
    job["signature"] = {name: job["signature"][name] for name in function.arg_names if name in job["signature"]}
    target = GPUTarget("cuda", job["capability"], 32)
    options = {name: job[name] for name in ("num_warps", "num_stages")}
    if job["ptx_options"]:
        options["ptx_options"] = " ".join(job["ptx_options"])
    return triton.compile(source, target=target, options=options)


def _function(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    while function is not None and not hasattr(function, "arg_names"):  # unwrap autotune and heuristics
        function = getattr(function, "fn", None)
    if function is None:
        raise ValueError(f"{path} defines no @triton.jit function {name!r}")
    while hasattr(function, "fn") and hasattr(function.fn, "arg_names"):
        function = function.fn
    return function


if __name__ == "__main__":
    sys.exit(main())
