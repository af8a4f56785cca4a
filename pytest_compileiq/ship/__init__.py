"""What takes an artifact into production."""
