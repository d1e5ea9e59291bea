"""Cases of the eighteenth held-out set, of its first writer: their outcomes have been seen."""
