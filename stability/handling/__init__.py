"""What is done about a step whose loss or gradients are not finite."""
