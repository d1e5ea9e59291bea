"""Hooks that act on layers' tensors when a condition holds: triggers, conditions, actions, and who calls them."""
