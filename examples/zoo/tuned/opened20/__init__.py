"""Cases of the fifteenth held-out set, of its second writer: their outcomes have been seen."""
