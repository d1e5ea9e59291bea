"""The demo: a short training in all trackers."""
