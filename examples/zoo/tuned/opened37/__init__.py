"""Cases of the twenty-fourth held-out set, of its first writer: their outcomes have been seen."""
