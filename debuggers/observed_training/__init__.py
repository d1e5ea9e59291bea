"""What a session learns of a training by itself: its backward passes, its loss, its facts, and what it keeps to."""
