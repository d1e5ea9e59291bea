"""A report as one HTML file and as Markdown, from a run's evidence, without torch."""
