"""Cases of the ninth held-out set, typical ones: their outcomes have been seen."""
