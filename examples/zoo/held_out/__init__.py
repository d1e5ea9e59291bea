"""The cases on which no rule is tuned."""
