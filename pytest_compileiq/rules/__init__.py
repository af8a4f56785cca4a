"""The rules: values in, verdict out. Nothing here touches a file, a clock, a process or a random source of its own."""
