"""The run store: one SQLite database for each rank, written by one thread and read by any process."""
