"""Pages on disk: writing, index, reading, validation, comparison."""
