"""Cases of the thirty-second held-out set, of its second writer: their outcomes have been seen."""
