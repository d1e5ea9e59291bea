"""Cases of the sixteenth held-out set, of its second writer: their outcomes have been seen."""
