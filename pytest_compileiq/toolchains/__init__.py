"""The compilers this package can drive, one file each."""
