"""The run store: one SQLite database a rank, written by one thread and read by anybody."""
