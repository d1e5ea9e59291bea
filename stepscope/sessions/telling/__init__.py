"""What a loop tells a session of the steps that the optimizer counts."""
