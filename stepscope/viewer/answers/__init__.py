"""What the page shows: one answer for each address, computed from runs alone. Needs neither torch nor a server."""
