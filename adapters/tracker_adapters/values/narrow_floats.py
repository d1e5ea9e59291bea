"""The floating point types that torch has and NumPy lacks: arrays and pages have them as those of ml_dtypes."""

import sys
from functools import cache
from typing import Any

import numpy as np

NAMES = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
"""Their names, which are the same in torch and in ml_dtypes. An older version of either lacks the last."""


@cache
def narrow_floats() -> dict[str, np.dtype[Any]]:
    """Returns each dtype by its name. The first call imports ml_dtypes, which takes milliseconds."""
    import ml_dtypes

    return {name: np.dtype(getattr(ml_dtypes, name)) for name in NAMES if hasattr(ml_dtypes, name)}


def is_narrow_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of them; imports nothing, since who has such a dtype has imported ml_dtypes."""
    return "ml_dtypes" in sys.modules and dtype in narrow_floats().values()
