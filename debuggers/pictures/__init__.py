"""Pictures of tensors, gradients, metrics and layers: matplotlib's, inline SVG, and text for terminals."""
