"""Delivery: writes a run store to its sinks, each in a process of its own and from its own cursor."""
