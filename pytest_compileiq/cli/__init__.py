"""The ``acf`` command: one verb, or a family of verbs, a file."""
