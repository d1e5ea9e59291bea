"""What chance does to a share of the samples."""

import numpy as np
import pytest

from debuggers.diagnosis.derived.chance import binomial_deviation, is_below
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.series import Series


def test_each_place_of_a_sequence_is_a_sample():
    rows = {"inputs/batch_size": Series(np.arange(3), np.full(3, 20.0))}
    loss = LossFacts(kind="cross_entropy", outputs_shape=(700, 128), targets_shape=(700,))
    known, unknown = (Evidence(series=rows, facts=Facts(loss=one)) for one in (loss, None))
    assert binomial_deviation(known, 0.5, 4) == pytest.approx(0.5 / 2800**0.5)
    assert binomial_deviation(unknown, 0.5, 4) == pytest.approx(0.5 / 80**0.5)


@pytest.mark.parametrize(
    ("found", "share", "batches", "expected"),
    [
        (0.0, 0.02, 16, False),  # of 320, six are expected, and none may come
        (0.0, 0.02, 20, True),  # exp(-20 · 20 · 0.0202) is below exp(-8), four deviations
        (0.3, 0.5, 4, False),
        (0.3, 0.5, 5, True),  # 0.082 nats of each of 100 samples
        (0.6, 0.5, 1000, False),
        (0.5, 1.0, 1000, False),
    ],
)
def test_few_of_many_may_be_none_by_chance(found, share, batches, expected):
    evidence = Evidence(series={"inputs/batch_size": Series(np.arange(3), np.full(3, 20.0))})
    assert is_below(evidence, found, share, batches, deviations=4.0) == expected
