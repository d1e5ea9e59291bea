"""Cases of the thirtieth held-out set, of its first writer: their outcomes have been seen."""
