"""Nothing is compiled: knobs that a program reads when it runs."""
