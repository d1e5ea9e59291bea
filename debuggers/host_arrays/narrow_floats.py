"""The floating point types that torch has and NumPy lacks: pages keep them as those of ml_dtypes. Needs no torch."""

from typing import Any

import ml_dtypes
import numpy as np

NARROW_FLOATS: dict[str, np.dtype[Any]] = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
    if hasattr(ml_dtypes, name)
}
"""Each dtype by its name, which is the same in torch and in ml_dtypes."""
