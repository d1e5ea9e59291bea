"""Cases of the twenty-eighth held-out set, of its first writer: their outcomes have been seen."""
