"""What is remembered of the steps, and what is unusual in it."""
