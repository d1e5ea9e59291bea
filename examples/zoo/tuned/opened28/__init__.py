"""Cases of the nineteenth held-out set, of its second writer: their outcomes have been seen."""
