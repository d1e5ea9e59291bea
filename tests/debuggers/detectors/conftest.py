import numpy as np
import pytest

from debuggers.detectors import Observation


@pytest.fixture
def observe():
    """Makes an observation of named tensors from one list a statistic; None is a tensor that was not measured."""

    def make(step, names=None, *, expected_overflow=False, **statistics):
        columns = {key: list(values) for key, values in statistics.items()}
        first = next(iter(columns.values()))
        names = names or [f"layer{row}.weight" for row in range(len(first))]
        present = np.array([value is not None for value in first])
        values = {key: np.array([np.nan if v is None else v for v in column]) for key, column in columns.items()}
        return Observation(step, names, present, values, expected_overflow)

    return make
