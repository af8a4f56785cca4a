"""What keeps the promise of bits, from a toolchain's answer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_compileiq.errors import BuildError, EnvironmentFault, StoreError
from pytest_compileiq.toolchains.promised_bits import licences_or_unknown


@pytest.mark.parametrize(
    "error",
    [BuildError("gcc refuses k.c", kind="compile"), EnvironmentFault("no gcc"), StoreError("k.ptx cannot be read")],
)
def test_a_compiler_that_cannot_tell_its_licences_costs_the_promise_of_bits_and_no_finished_search(error):
    def licences():
        raise error

    (licence,) = licences_or_unknown(SimpleNamespace(licences=licences))
    assert (licence.name, licence.allows, licence.where) == ("unknown", "opaque", str(error))
