"""A model as a whole: its architecture, how its training goes by the numbers that a loop records, and advice."""
