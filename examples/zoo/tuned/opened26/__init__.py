"""Cases of the eighteenth held-out set, of its second writer: their outcomes have been seen."""
