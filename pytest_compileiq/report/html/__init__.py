"""The HTML page: one file that loads nothing."""
