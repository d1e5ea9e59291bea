"""Single tensors that a loop hands over."""
