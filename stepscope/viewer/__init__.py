"""The viewer: a web page that shows runs, live or later, and what it needs to be served."""
