"""Compiles one Triton kernel in a process of its own: ``python triton_host.py JOB.json``. Never imported for work.

Triton itself runs ptxas, with the flags that it adds: a cubin made in any other way is not what production compiles.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Write ``kernel.ptx``, ``kernel.cubin`` and ``kernel.json`` into the job's directory."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    out_dir = Path(job["out_dir"])
    sys.path[:0] = job["sys_path"]
    try:
        compiled = _compile(job)
    except Exception as error:  # Triton's own errors: the parent makes a sentence of the last line
        text = " ".join(str(error).split())
        print(f"error: {type(error).__name__}: {text[:1500]}", file=sys.stderr)
        return 1
    (out_dir / "kernel.ptx").write_text(compiled.asm["ptx"], encoding="utf-8")
    (out_dir / "kernel.cubin").write_bytes(compiled.asm["cubin"])
    metadata = compiled.metadata
    described = {name: getattr(metadata, name, None) for name in ("name", "shared", "num_warps", "num_ctas")}
    (out_dir / "kernel.json").write_text(json.dumps(described), encoding="utf-8")
    return 0


def _compile(job: dict[str, Any]) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _function(Path(job["file"]), job["function"])
    signature, attributes = {}, {}
    for name in function.arg_names:
        if name in job["constexprs"]:
            signature[name] = "constexpr"
            continue
        if name not in job["signature"]:
            raise ValueError(f"the argument {name!r} of {job['function']} is in neither signature nor constexprs")
        kind, _, divisor = job["signature"][name].partition(":")
        signature[name] = kind
        if divisor:
            attributes[(function.arg_names.index(name),)] = [["tt.divisibility", int(divisor)]]
    source = ASTSource(fn=function, signature=signature, constexprs=job["constexprs"], attrs=attributes)
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
    while function is not None and not hasattr(function, "arg_names"):  # under autotune and heuristics
        function = getattr(function, "fn", None)
    if function is None:
        raise ValueError(f"{path} defines no @triton.jit function {name!r}")
    while hasattr(function, "fn") and hasattr(function.fn, "arg_names"):
        function = function.fn
    return function


if __name__ == "__main__":
    sys.exit(main())
