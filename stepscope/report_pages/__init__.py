"""Reports as one HTML file and as Markdown, of a running session or of a stored run, without torch."""
