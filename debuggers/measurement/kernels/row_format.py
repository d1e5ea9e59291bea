"""The row of numbers that a device makes of a tensor: counts of bins and kinds, then moments.

4096 counts of 32 bits without sign, in the order of the histogram's bins; then the bits of five float64: the least and
the greatest finite element, their mean, the sum of squared differences from it, and the sum of magnitudes. The codes of
NaN in the bins of float32 are free; they count what a histogram has beside its bins.
"""

from tracker_adapters.histograms.layout import N_BINS, OVERFLOW_BIN, SIGN_BIN

MOMENTS = 5
WORDS = N_BINS + 2 * MOMENTS
"""Numbers of 32 bits in a row."""
CODES = {
    "nan": 4095,
    "pos_inf": 4090,
    "neg_inf": 4091,
    "zero": 4094,
    "pos_overflow": OVERFLOW_BIN,
    "neg_overflow": SIGN_BIN + OVERFLOW_BIN,
    "pos_underflow": 4092,
    "neg_underflow": 4093,
}
"""Where the elements are counted that have no bin."""
