"""The page for a person, one file without network."""
