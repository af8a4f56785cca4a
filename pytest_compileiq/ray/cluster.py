"""How a run gets to a Ray cluster: to one that is there, or to one of its own, which ends with it."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from pytest_compileiq.errors import EnvironmentFault, install
from pytest_compileiq.ray import likeness
from pytest_compileiq.system.process import Guard

OWN = "ray"
_OBJECT_STORE_BYTES = 100 * 2**20  # of a cluster of its own: answers are small
_ANSWER_S = 60.0
_AUTH_MODE = "RAY_AUTH_MODE"
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
# Read as Ray is imported: for this process alone, not for those of a cluster of its own.
_OF_THIS_PROCESS = {
    # Of what is lost the user is told in a line: Ray would add a paragraph for each process, or the raylet's last log.
    "RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    # Ray ends a process that has not reached the cluster's head for a minute.
    "RAY_gcs_rpc_server_reconnect_timeout_s": str(10**6),
    # Ray would try for twelve minutes to connect to a head that does not answer.
    "RAY_NUM_REDIS_GET_RETRIES": "1",
}  # fmt: skip
_PATIENCE_S = 20.0
_LISTENS_WITHIN_S = 10.0
_Given = TypeVar("_Given")
Node = Mapping[str, Any]


def connect(where: str, guard: Guard, say: Callable[[str], None]) -> None:
    """Begin a cluster of this run's own, or connect to one."""
    try:
        with _with_environment(_OF_THIS_PROCESS):
            import ray
    except ImportError as error:
        raise EnvironmentFault(f"--tune-on needs Ray: {install('ray')}") from error
    if ray.is_initialized():
        raise EnvironmentFault(
            "--tune-on: this process has begun Ray before, as a conftest.py may: leave one of them out"
        )
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "namespace": "compileiq"}
    own = where == OWN
    logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of the token that it was given
    settings = _own(guard) if own else _QUIET
    with warnings.catch_warnings(action="ignore"), _with_environment(settings), _with_sigterm_as_it_was():
        try:
            if own:
                ray.init(address="local", include_dashboard=False, _temp_dir=str(guard.folder / "r"),
                         object_store_memory=_OBJECT_STORE_BYTES, **quiet)  # fmt: skip
                if os.environ.get(_AUTH_MODE) != "token":
                    ray.shutdown()
                    raise RuntimeError(
                        "it began without a token, and would take orders from anybody: needs 2.60 or later"
                    )
            else:
                _expect_listener(where)
                # Never without an address: Ray would take whatever cluster ran here last.
                ray.init(address=where, **quiet)
        except Exception as error:  # Ray raises what it likes: RuntimeError for another version, ConnectionError, …
            remedy = "" if own else ": is it the HOST:PORT that ray start --head printed, of the same Ray and Python?"
            raise EnvironmentFault(f"--tune-on={where}: Ray: {what_ray_says(error)}{remedy}") from error
    if not own and os.environ.get(_AUTH_MODE) != "token":
        say(f"the Ray cluster {where} asks for no token, so that anybody with access to its ports runs code on it: "
            "start its nodes, and this run, with RAY_AUTH_MODE=token")  # fmt: skip


def _expect_listener(where: str) -> None:
    """Ray itself would take most of a minute to find that nobody listens there."""
    host, _, port = where.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_LISTENS_WITHIN_S).close()


def living_nodes() -> list[Node]:
    """The nodes of the cluster, as Ray describes them."""
    import ray

    nodes_of: Any = ray.nodes  # Ray does not say what it gives
    nodes: list[Node] = _bounded(nodes_of)
    return [node for node in nodes if node["Alive"]]


def name_of(node: Node) -> str:
    """A node, for messages."""
    return f"node {node['NodeID'][:8]} ({node['NodeManagerHostname']})"


def own_node() -> str:
    """The id of the node that this process is a driver of."""
    import ray

    node_id: str = ray.get_runtime_context().get_node_id()
    return node_id


def unlike_nodes(nodes: Sequence[Node]) -> dict[str, str]:
    """Node id → what it has otherwise than this machine, in words: another Python, or another version of a package."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    pickle: Any = ray.cloudpickle
    pickle.register_pickle_by_value(likeness)  # a node may have no such module
    try:
        asking = ray.remote(likeness.here)
        asked = {
            node["NodeID"]: asking.options(
                num_cpus=0,
                max_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            ).remote()
            for node in nodes
        }
    finally:
        pickle.unregister_pickle_by_value(likeness)
    here = likeness.here()
    told = {node_id: _why_unlike(reference, here) for node_id, reference in asked.items()}
    return {node_id: why for node_id, why in told.items() if why is not None}


def _why_unlike(reference: Any, here: Mapping[str, str]) -> str | None:
    import ray

    try:
        return likeness.why_unlike(ray.get(reference, timeout=_ANSWER_S), here)
    except ray.exceptions.RayError as error:
        return f"it does not list its resources: {what_ray_says(error)}"


def leave() -> None:
    """Leave the cluster; one of this run's own ends."""
    import ray

    with warnings.catch_warnings(action="ignore"):
        try:
            _bounded(ray.shutdown)
        except ConnectionError:  # a part of it stands still; the guard ends a cluster of this run's own
            atexit.unregister(ray.shutdown)  # it would wait again


def _bounded(call: Callable[[], _Given]) -> _Given:
    """What ``call`` gives, which may wait for ever for a part of the cluster that is gone or stands still."""
    outcomes: SimpleQueue[_Given | Exception] = SimpleQueue()

    def outcome() -> None:
        try:
            outcomes.put(call())
        except Exception as error:  # Ray raises what it likes
            outcomes.put(error)

    threading.Thread(target=outcome, daemon=True, name="compileiq-ray").start()
    try:
        given = outcomes.get(timeout=_PATIENCE_S)
    except Empty:
        raise ConnectionError(f"the Ray cluster has not answered for {_PATIENCE_S:g} s") from None
    if isinstance(given, Exception):
        raise ConnectionError(f"the Ray cluster is gone: {what_ray_says(given)}") from given
    return given


def _own(guard: Guard) -> Mapping[str, str | None]:
    """The environment that a cluster of this run's own begins with: only this run knows its token."""
    # Where the mode is unset, Ray turns tokens on, even if imported long before. With SPT_NOENV its processes keep
    # their first environment where the guard looks for them, though they give themselves other names.
    return {**_QUIET, **guard.marked({}), "SPT_NOENV": "1", "RAY_AUTH_TOKEN": secrets.token_hex(32), _AUTH_MODE: None}


@contextlib.contextmanager
def _with_environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Ray reads its settings from the environment as it begins; no worker is to inherit them."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


@contextlib.contextmanager
def _with_sigterm_as_it_was() -> Iterator[None]:
    """Ray takes the signal for itself: a run that a batch system ends would end with a traceback."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # in another thread than the main one, which Ray leaves alone
            signal.signal(signal.SIGTERM, before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def what_ray_says(error: BaseException) -> str:
    """Why something failed, without Ray's pages of advice and without its numbers of actors and tasks."""
    import ray

    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return "the connection to it broke"
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("\t")]
    if isinstance(error, ray.exceptions.RayTaskError) or getattr(error, "actor_init_failed", False):
        lines = lines[-1:]  # of a traceback
    elif isinstance(error, ray.exceptions.RayError):
        lines = [line.partition(". ")[0] for line in lines]  # behind it is advice
        lines = lines[isinstance(error, ray.exceptions.ActorDiedError) :] or lines  # the first is the same for all
    return lines[0][:300].rstrip(".") if lines else type(error).__name__
