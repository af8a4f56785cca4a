"""The search engines, one file or directory each."""
