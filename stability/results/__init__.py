"""What a step and a debug session return."""
