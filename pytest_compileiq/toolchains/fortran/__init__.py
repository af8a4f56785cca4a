"""gfortran, which is gcc with another front end."""
