"""``pytest --tune`` for one benchmark: search, proof, artifact."""
