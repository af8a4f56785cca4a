"""How the times of each artifact went, from git and from the reports that were added."""
