"""The search loop: what is asked, built, scored, kept."""
