"""Started by the program's own interpreter in the program's place: watches, and becomes the program.

``python OPTIONS launch.py SETTINGS KIND TARGET ARGUMENTS``, where KIND is ``script``, ``module`` or ``code``. The
program finds ``__main__``, ``sys.argv`` and ``sys.path`` as it would without this file, and its uncaught exceptions
show its own lines alone.
"""

from __future__ import annotations

import importlib.util
import io
import json
import linecache
import os
import runpy
import sys
import types
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = "_acf_inside"  # a name of its own: the program may have another version of this package, or none


def watch(settings: dict[str, Any]) -> None:
    """Watch this process, and write what it called to ``settings["tally"]`` when it ends.

    With ``settings["record"]``, the arguments of a ``Recorder``, calls are recorded too; with ``settings["arms"]``,
    those of ``Arms``, they are made by other builds. With ``settings["launches"]``, the arguments of
    ``triton_hook.install``, launches of Triton's JIT are watched.
    """
    spec = importlib.util.spec_from_file_location(
        _NAME, os.path.join(_HERE, "__init__.py"), submodule_search_locations=[_HERE]
    )
    assert spec is not None
    sys.modules[_NAME] = importlib.util.module_from_spec(spec)
    own = {
        name: importlib.import_module(f"{_NAME}.{name}")
        for name in ("both_arms", "recorder", "counters", "ctypes_hook", "cffi_hook")
    }
    record, arms = settings["record"], settings["arms"]
    recorder = own["recorder"].Recorder(**record) if record else None
    tally = own["counters"].Counters(settings["tally"], recorder, own["both_arms"].Arms(**arms) if arms else None)
    own["cffi_hook"].install(tally, own["ctypes_hook"].install(tally))
    importlib.import_module(f"{_NAME}.triton_hook").install(**settings["launches"])
    tally.write_at_exit()


def become(kind: str, target: str, arguments: list[str]) -> None:
    """Run the program as ``python TARGET``, ``python -m TARGET`` or ``python -c TARGET`` would."""
    main: Any = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    sys.argv = [{"script": target, "module": "-m", "code": "-c"}[kind], *arguments]
    own_path = not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated)
    if own_path:
        starts = {"script": os.path.dirname(os.path.realpath(target)), "module": os.getcwd(), "code": ""}
        sys.path[0] = starts[kind]  # this file's directory stood there
    run_module = vars(runpy)["_run_module_as_main"]  # what python -m itself runs
    if kind == "module":
        run_module(target)
    elif kind == "code":
        if sys.version_info >= (3, 13):  # whose tracebacks show the lines of -c
            linecache.cache["<string>"] = len(target), None, target.splitlines(keepends=True), "<string>"
        exec(compile(target, "<string>", "exec"), main.__dict__)
    elif os.path.isdir(target) or target.endswith((".zip", ".pyz")):
        sys.path[: int(own_path)] = [os.path.abspath(target)]
        run_module("__main__", alter_argv=False)
    else:
        main.__file__ = os.path.abspath(target)
        with io.open_code(main.__file__) as stream:
            source = stream.read()
        exec(compile(source, main.__file__, "exec"), main.__dict__)


def _show(error: BaseException) -> None:
    """As the interpreter shows an uncaught exception, from the program's first line on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036 - the program's interpreter, and not this package's
        sys.exit("acf: programs of Python 3.9 and later are watched, and this is " + sys.version.split()[0])
    _, watching, program_kind, program, *rest = sys.argv
    watch(json.loads(watching))
    try:
        become(program_kind, program, rest)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        _show(error)
        sys.exit(1)
