"""How many examples a property test draws that says the number itself."""

from hypothesis import settings

FEWEST = 10
"""A test that draws no more draws them all whatever the profile."""


def examples(thorough: int) -> int:
    """Returns what the profile of this run leaves of the number that the thorough one draws."""
    return max(min(thorough, FEWEST), thorough * settings().max_examples // 100)
