"""What the class activation maps share."""
