"""The sides of the viewer's benchmark."""
