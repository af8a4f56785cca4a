"""Any compiler, by a template of commands."""
