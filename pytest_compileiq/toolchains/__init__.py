"""The compilers that this package can drive, one package each, and what they share."""
