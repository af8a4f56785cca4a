"""Everything that an hour with a GPU should yield, in steps that go on from each other; see __main__.py."""
