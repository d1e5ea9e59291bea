"""What autograd graphs show of a training: its loss, samples that meet, graphs that are kept, other weights."""
