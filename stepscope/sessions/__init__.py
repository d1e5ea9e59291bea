"""Debug sessions: what is measured when, and what is said of it."""
