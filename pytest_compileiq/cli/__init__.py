"""The ``acf`` command: each file holds one verb or a family of verbs."""
