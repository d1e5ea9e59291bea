"""Cases of the seventeenth held-out set, of its second writer: their outcomes have been seen."""
