"""A licence never makes a control look safer than it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_compileiq.model import CONTROL_CLASSES, Licence
from pytest_compileiq.rules.classes import effective_classes

classes = st.sampled_from(CONTROL_CLASSES)
licences = st.lists(st.builds(Licence, st.just("l"), classes, st.just("w"), st.just("r")), max_size=4)


@given(classes, licences)
def test_the_effective_class_is_never_narrower_than_the_own_or_than_any_licence(own, given_licences):
    width = CONTROL_CLASSES.index(*effective_classes((own,), given_licences))
    assert width == max(map(CONTROL_CLASSES.index, (own, *(licence.allows for licence in given_licences))))


@given(st.lists(classes), licences)
def test_the_widest_effective_class_of_an_artifact_covers_every_own_one(own, given_licences):
    effective = effective_classes(own, given_licences)
    assert bool(effective) is bool(own)
    assert not own or CONTROL_CLASSES.index(effective[-1]) >= max(map(CONTROL_CLASSES.index, own))
