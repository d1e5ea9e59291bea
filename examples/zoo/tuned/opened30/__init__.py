"""Cases of the twentieth held-out set, of its second writer: their outcomes have been seen."""
