"""Cases of the thirty-fourth held-out set, of its first writer: their outcomes have been seen."""
