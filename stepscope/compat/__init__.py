"""Other trackers' calls, recorded by stepscope: a script keeps its lines, but for the import."""
