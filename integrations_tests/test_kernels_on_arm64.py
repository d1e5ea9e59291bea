"""A short run of ``make arm64``."""

import kernels_on_arm64
import pytest


@pytest.mark.slow
@pytest.mark.skipif(bool(kernels_on_arm64.missing()), reason=f"not here: {', '.join(kernels_on_arm64.missing())}")
def test_the_measuring_code_finds_the_same_on_arm64(tmp_path):
    done = kernels_on_arm64.compare(tmp_path, 200)
    assert done["tensors"] == 200
    assert done["bytes of tensors"] > 100_000
    assert done["trees"] == 80
    assert done["bytes of trees"] > 100_000
