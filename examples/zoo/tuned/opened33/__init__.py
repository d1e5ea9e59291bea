"""Cases of the twenty-second held-out set, of its first writer: their outcomes have been seen."""
