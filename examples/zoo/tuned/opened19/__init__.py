"""Cases of the fifteenth held-out set, of its first writer: their outcomes have been seen."""
