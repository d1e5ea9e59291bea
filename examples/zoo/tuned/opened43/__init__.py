"""Cases of the twenty-seventh held-out set, of its first writer: their outcomes have been seen."""
