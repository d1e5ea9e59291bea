"""Equal rows: data that repeats, or a few states."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import BatchFacts, Facts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STATES = 8


@pytest.mark.parametrize(("batch", "share", "deviation", "found"), [
    (64, 0.875, "of one-hot rows", []),
    (8, 0.35, "of one-hot rows", []),
    (8, 0.75, "of one-hot rows", ["duplicated_data"]),  # 8 draws of 8 states have 5 different ones, not 2
    (64, 0.875, "of other rows", ["duplicated_data"]),
])  # fmt: skip
def test_one_hot_rows_equal_one_another_by_chance(batch, share, deviation, found):
    spread = np.sqrt((1 - 1 / STATES) / STATES) * (1.0 if deviation == "of one-hot rows" else 0.8)
    signals = {
        "loss": np.geomspace(2.3, 0.2, 60), "inputs/batch_size": batch, "inputs/duplicates": share, "inputs/min": 0.0,
        "inputs/max": 1.0, "inputs/mean": 1 / STATES, "inputs/std": spread,
    }  # fmt: skip
    series = {
        name: Series(np.arange(60), np.broadcast_to(np.float64(value), 60)) if np.ndim(value) == 0 else
        Series(np.arange(60), value) for name, value in signals.items()
    }  # fmt: skip
    causes = diagnose(Evidence(series=series, facts=Facts(steps=60, inputs=BatchFacts(shape=(batch, STATES)))))

    assert [cause.code for cause in causes] == found
