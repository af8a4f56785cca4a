"""One concern of the world a file: processes, files, git, the machine."""
