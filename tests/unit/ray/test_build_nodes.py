"""Which nodes build, how many at once, and what becomes of builds that a node loses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs

from pytest_compileiq.benchmark.builds import MadeElsewhere, MakerLost
from pytest_compileiq.benchmark.cached_builds import identity_of
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import Candidate, CodeDigest, sha256_hex
from pytest_compileiq.ray.build_nodes import BuildNode, BuildNodes
from pytest_compileiq.system.cpu import ProcessorTurn
from pytest_compileiq.testing import FakeBuilder, FakeCarrier, fake_benchmark, obedient
from pytest_compileiq.workers.messages import BuildAnswer, BuildRefused, Identify, IdentityAnswer, Make, Start
from pytest_compileiq.workers.transport import WorkerDied

START = Start(".", (), {}, (), (None,), {})
WAIT_S = 20


@dataclass
class Device:
    name: str = "node 7 (far)"
    is_lost: bool = False


@dataclass
class Node(BuildNode):
    """A node whose workers are functions."""

    carrier: FakeCarrier = field(default_factory=FakeCarrier)

    def launch(self):
        return self.carrier.launch(self.start, 0)


@pytest.fixture
def benchmark(tmp_path):
    return fake_benchmark(tmp_path, FakeBuilder())


@pytest.fixture
def said():
    return []


@pytest.fixture
def node(benchmark, said):
    """A node that builds as this machine does, but for ``answers``, by the query's name."""
    here = benchmark.builder

    def make(slots=2, device=None, **answers):
        def answer(worker, order):
            if (other := answers.get(type(order).__name__)) is not None:
                return other(order) if callable(other) else other
            if isinstance(order, Identify):
                return IdentityAnswer(identity_of(here, benchmark.rootdir), {})
            if isinstance(order, Make):
                return BuildAnswer(made_of(here.code(order.controls.knobs if order.controls else {})))
            return obedient(order)

        return Node(device or Device(), START, slots, ProcessorTurn(), said.append, carrier=FakeCarrier(answer))

    return make


def made_of(entries):
    code = {name: CodeDigest(sha256_hex(body.encode()), {"code_bytes": len(body)}) for name, body in entries.items()}
    return MadeElsewhere("k.so", code, {"code_bytes": 4}, "", 0.1, {"k.so": b"code"})


def makers_of(benchmark, said, *nodes):
    found = BuildNodes(nodes, benchmark.rootdir, said.append)
    return found.makers(benchmark.nodeid, benchmark.builds)


def test_a_node_that_builds_alike_makes_as_many_builds_at_once_as_it_has_processors(benchmark, node, said):
    controls = benchmark.builder.render(Candidate({"-O": 3}))
    one, other = node(slots=2), node(slots=1)
    makers = makers_of(benchmark, said, one, other)
    assert len(makers) == 3 and said == []
    built = benchmark.builds.attempt_by(makers[0], controls)
    assert (
        built.path.read_bytes() == b"code"
        and built.code == benchmark.builder.build(controls, benchmark.rootdir, timeout_s=1.0).code
    )
    assert [what for what, _ in one.carrier.said] == ["Start", "Identify", "Make", "Make"]  # by one worker


def test_a_benchmark_is_looked_at_once_and_what_compiles_nothing_never(benchmark, node, said):
    one = node()
    found = BuildNodes([one], benchmark.rootdir, said.append)
    assert found.makers("a", benchmark.builds) == found.makers("a", benchmark.builds)
    assert [what for what, _ in one.carrier.said].count("Identify") == 1
    nothing = replace(benchmark.builder, compiler=replace(benchmark.builder.compiler, name="params"))
    assert found.makers("b", structs.replace(benchmark.builds, builder=nothing)) == ()


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"Identify": IdentityAnswer({"compiler": "fake 2.0"}, {})}, "its compiler: fake 2.0 (here fake 1.0.0"),
        ({"Identify": WorkerDied("wrong", "no compiler 'fake' on PATH")}, "no compiler 'fake' on PATH"),
        ({"Make": BuildRefused("no header", "compile", "")}, "its baseline does not build: no header"),
        ({"Make": BuildAnswer(made_of({"kernel": "other"}))}, "its baseline has other machine code"),
    ],
)
def test_a_node_that_builds_otherwise_is_told_and_builds_nothing(benchmark, node, said, answers, reason):
    assert makers_of(benchmark, said, node(**answers)) == []
    assert len(said) == 1 and said[0].startswith(f"node 7 (far) builds nothing of {benchmark.nodeid}: {reason}")


def test_a_node_that_is_lost_is_not_asked(benchmark, node, said):
    lost = node(device=Device(is_lost=True))
    assert makers_of(benchmark, said, lost) == () and lost.carrier.said == []


def test_a_refusal_is_an_answer_and_a_loss_is_told_once(benchmark, node, said):
    refuses = benchmark.builder.render(Candidate({"-O": 1}))
    here = IdentityAnswer(identity_of(benchmark.builder, benchmark.rootdir), {})
    baseline = BuildAnswer(made_of(benchmark.builder.code({})))

    def make(order):
        if order.controls is None:
            return baseline
        refused = BuildRefused("no such option", "compile", "log")
        return refused if order.controls == refuses else WorkerDied("lost", "node 7 went down")

    makers = makers_of(benchmark, said, node(Identify=here, Make=make))
    with pytest.raises(BuildError, match="no such option"):
        makers[0].make(refuses)
    for maker in makers:
        with pytest.raises(MakerLost):
            maker.make(benchmark.builder.render(Candidate({"-O": 2})))
    assert said == ["node 7 went down; its builds are made elsewhere"]
