"""Thirty planted faults in three networks: what names the first NaN is held to them."""
