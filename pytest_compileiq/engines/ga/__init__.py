"""The embedded engine: a model-assisted evolutionary search."""

from pytest_compileiq.engines.ga.engine import Ga

__all__ = ["Ga"]
