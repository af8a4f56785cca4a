"""A tuned test on this machine: its marker, its digest, its builds, and the running of its body."""
