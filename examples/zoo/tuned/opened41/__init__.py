"""Cases of the twenty-sixth held-out set, of its first writer: their outcomes have been seen."""
