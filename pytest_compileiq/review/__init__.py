"""What a change to ``acf/`` means: git range to snapshots to changes."""
