"""The gate measured and simulated; see __main__.py."""
