"""The artifacts on disk, and what lies beside them. Everything read is untrusted."""
