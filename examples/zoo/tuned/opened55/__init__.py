"""Cases of the thirty-third held-out set, of its first writer: their outcomes have been seen."""
