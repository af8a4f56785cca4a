"""What a change to ``acf/`` means: from a git range to snapshots to changes."""
