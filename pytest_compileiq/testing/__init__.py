"""Tools for testing third-party code: conformance suites for engines and toolchains, and fakes."""

from pytest_compileiq.testing.engine_conformance import BOUNDED_SPACE as BOUNDED_SPACE
from pytest_compileiq.testing.engine_conformance import LARGE_SPACE as LARGE_SPACE
from pytest_compileiq.testing.engine_conformance import SLIVER_SPACE as SLIVER_SPACE
from pytest_compileiq.testing.engine_conformance import SMALL_SPACE as SMALL_SPACE
from pytest_compileiq.testing.engine_conformance import EngineConformance as EngineConformance
from pytest_compileiq.testing.engine_conformance import digest_of as digest_of
from pytest_compileiq.testing.fake_carrier import FakeCarrier as FakeCarrier
from pytest_compileiq.testing.fake_carrier import obedient as obedient
from pytest_compileiq.testing.fakes import FakeBuilder as FakeBuilder
from pytest_compileiq.testing.fakes import FakePool as FakePool
from pytest_compileiq.testing.fakes import FakeProgress as FakeProgress
from pytest_compileiq.testing.fakes import FakeToolchain as FakeToolchain
from pytest_compileiq.testing.fakes import fake_benchmark as fake_benchmark
from pytest_compileiq.testing.fakes import fake_settings as fake_settings
from pytest_compileiq.testing.toolchain_conformance import ToolchainConformance as ToolchainConformance
