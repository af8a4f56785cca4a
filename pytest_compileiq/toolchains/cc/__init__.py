"""gcc and clang."""
