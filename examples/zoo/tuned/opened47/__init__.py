"""Cases of the twenty-ninth held-out set, of its first writer: their outcomes have been seen."""
