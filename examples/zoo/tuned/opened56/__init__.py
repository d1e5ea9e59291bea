"""Cases of the thirty-third held-out set, of its second writer: their outcomes have been seen."""
