"""Property tests draw the same examples in each run, and no clock has a say in them: a busy machine fails none."""

from hypothesis import settings

settings.load_profile("ci")
