"""Commands of the command line, each in a module of its own that is imported when it is called."""
