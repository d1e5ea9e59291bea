"""Cases of the twenty-first held-out set, of its first writer: their outcomes have been seen."""
