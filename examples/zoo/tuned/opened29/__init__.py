"""Cases of the twentieth held-out set, of its first writer: their outcomes have been seen."""
