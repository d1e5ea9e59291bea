"""Arithmetic of float64 as in IEEE 754, where Python's raises."""

import math


def divide(numerator: float, denominator: float) -> float:
    """Returns the quotient; by zero an infinity, or NaN where the numerator is zero or NaN."""
    if denominator:
        return numerator / denominator
    if not numerator or math.isnan(numerator):
        return math.nan
    return math.copysign(math.inf, numerator) * math.copysign(1.0, denominator)


def power(base: float, exponent: float) -> float:
    """Returns the power; infinity where it is too large, NaN where it is not real."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def log10(number: float) -> float:
    """Returns the logarithm to base 10; minus infinity of zero, NaN below."""
    if number > 0:
        return math.log10(number)
    return -math.inf if number == 0 else math.nan


def absolute(number: float) -> float:
    """Returns the absolute value."""
    return abs(number)
