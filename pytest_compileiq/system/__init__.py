"""What lies outside this package, one file for each concern: processes, files, git, printing."""
