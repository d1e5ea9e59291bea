"""Two parts are joined as the arrays of many are."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tracker_adapters.histograms.layout import M2, MEAN
from tracker_adapters.histograms.moments import join_moments
from tracker_adapters.native.extension import kernels, why_not

pytestmark = pytest.mark.skipif(kernels() is None, reason=why_not())
MEANS = st.floats(allow_nan=False, allow_infinity=False)
SUMS = st.floats(0, 1e300)


PARTS = st.tuples(st.integers(1, 2**53), MEANS, SUMS)


@given(ours=PARTS, theirs=PARTS)
@example(ours=(1, -1.7e308, 0.0), theirs=(1, 1.7e308, 0.0))
@example(ours=(5, 1e-30, 1e-60), theirs=(7, -1e-30, 1e-60))
def test_it_is_that_of_arrays(ours, theirs):
    n_ours, n_theirs = ours[0], theirs[0]
    moments = [np.array([mean, mean, mean, m2]) for _, mean, m2 in (ours, theirs)]
    expected = join_moments(n_ours, moments[0], n_theirs, moments[1])
    found = kernels().join(float(n_ours), *ours[1:], float(n_theirs), *theirs[1:])
    np.testing.assert_allclose(found, [expected[MEAN], expected[M2]], rtol=1e-15)


@pytest.mark.parametrize("mean", [1e-300, -0.1, 1e150])
def test_the_first_part_is_taken_as_it_is(mean):
    assert kernels().join(0.0, 0.0, 0.0, 3.0, mean, 0.1) == (mean, 0.1)
