"""What chance does to a share of the samples."""

import numpy as np
import pytest

from debuggers.diagnosis.derived.chance import binomial_deviation
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.series import Series


def test_each_place_of_a_sequence_is_a_sample():
    rows = {"inputs/batch_size": Series(np.arange(3), np.full(3, 20.0))}
    loss = LossFacts(kind="cross_entropy", outputs_shape=(700, 128), targets_shape=(700,))
    known, unknown = (Evidence(series=rows, facts=Facts(loss=one)) for one in (loss, None))
    assert binomial_deviation(known, 0.5, 4) == pytest.approx(0.5 / 2800**0.5)
    assert binomial_deviation(unknown, 0.5, 4) == pytest.approx(0.5 / 80**0.5)
