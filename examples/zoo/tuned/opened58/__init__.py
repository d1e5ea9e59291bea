"""Cases of the thirty-fourth held-out set, of its second writer: their outcomes have been seen."""
