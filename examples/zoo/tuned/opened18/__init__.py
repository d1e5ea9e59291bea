"""Cases of the fourteenth held-out set, of its second writer: their outcomes have been seen."""
