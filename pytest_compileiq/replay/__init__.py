"""A normal run of one tuned benchmark."""
