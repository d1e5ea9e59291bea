"""Cases of the nineteenth held-out set, of its first writer: their outcomes have been seen."""
