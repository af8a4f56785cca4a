"""The search loop: candidates are asked for, built, scored and kept."""
