"""Cases of the thirty-first held-out set, of its second writer: their outcomes have been seen."""
