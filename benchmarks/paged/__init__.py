"""The sides of the benchmark of pages, each run in a process of its own."""
