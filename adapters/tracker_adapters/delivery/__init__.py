"""Delivery: carries a run store into sinks, in another process, from each sink's own position."""
