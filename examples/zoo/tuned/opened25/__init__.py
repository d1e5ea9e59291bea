"""Cases of the seventeenth held-out set, of its first writer: their outcomes have been seen."""
