"""Cases of the twenty-third held-out set, of its first writer: their outcomes have been seen."""
