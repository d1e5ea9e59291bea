"""Colours that people with any colour vision can tell apart.

Lines have those of Okabe and Ito ("Color Universal Design", 2008); maps have viridis (Smith and van der Walt, 2015),
given by nine of its colours, with straight lines between them.
"""

import numpy as np
import numpy.typing as npt

OKABE_ITO = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
NAN_COLOUR, INFINITE_COLOUR = "#d55e00", "#cc79a7"
VIRIDIS = (
    (68, 1, 84),
    (71, 44, 122),
    (59, 81, 139),
    (44, 113, 142),
    (33, 144, 141),
    (39, 173, 129),
    (92, 200, 99),
    (170, 220, 50),
    (253, 231, 37),
)
HEAT = ((0.16, 0.08, 0.36), (0.62, 0.13, 0.42), (0.92, 0.33, 0.24), (0.98, 0.65, 0.20), (0.99, 0.95, 0.62))
"""The colours of a map over its image, red, green and blue from 0 to 1: from dark violet over red and orange to pale
yellow, in nearly even steps of lightness."""


def viridis(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Returns the colours of shares from 0 to 1, (..., 3)."""
    places, table = np.linspace(0, 1, len(VIRIDIS)), np.array(VIRIDIS)
    return np.round(np.stack([np.interp(shares, places, table[:, one]) for one in range(3)], axis=-1)).astype(np.uint8)
