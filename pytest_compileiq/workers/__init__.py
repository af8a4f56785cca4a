"""The isolated evaluation process, both ends, and the messages between."""
