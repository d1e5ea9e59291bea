"""What numbers of targets tell: indices of classes, or counts, and how many labels a row has."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from debuggers.diagnosis.derived.labels import index_classes, labels_of_a_row, targets_of_a_row
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import BatchFacts, Facts, LossFacts
from debuggers.diagnosis.series import Series

SIZE, BATCHES = 64, 20


def told(targets):
    """The signals of batches of targets."""
    draws = np.random.default_rng(0).choice(targets, (BATCHES, SIZE))
    named = {"mean": draws.mean(1), "min": draws.min(1), "max": draws.max(1), "std": draws.std(1)}
    series = {f"targets/{name}": Series(np.arange(BATCHES), values.astype(float)) for name, values in named.items()}
    return Evidence(series=series | {"inputs/batch_size": Series(np.arange(BATCHES), np.full(BATCHES, float(SIZE)))})


@pytest.mark.parametrize(
    ("targets", "classes"),
    [
        (load_digits().target, 10),
        (load_wine().target, 3),
        (load_digits().target[:1797].reshape(-1, 3).sum(1), 0),  # sums crowd about their mean
        (np.random.default_rng(0).poisson(3.0, 500), 0),
        (load_digits().target + 0.5, 0),
        (load_digits().target + 1, 0),
    ],
)
def test_whole_numbers_from_zero_on_that_are_spread_evenly_are_indices_of_classes(targets, classes):
    assert index_classes(told(targets)) == classes


def test_the_labels_of_a_row_are_counted_over_its_columns():
    series = {"targets/mean": 0.25, "targets/max": 1.0, "targets/classes": 2.0, "targets/most_labels": 5.0}
    evidence = Evidence(series={name: Series(np.arange(9), np.full(9, value)) for name, value in series.items()})
    assert labels_of_a_row(evidence, LossFacts(outputs_shape=(8, 12), targets_shape=(8, 12))) == 3.0
    assert labels_of_a_row(evidence, LossFacts(outputs_shape=(8, 12), targets_shape=(8,))) == 0.0


@pytest.mark.parametrize(
    ("loss", "count"),
    [
        (LossFacts(nodes=("MeanBackward0", "SumBackward1"), outputs_shape=(8, 12, 5), targets_shape=(8, 12)), 12),
        (LossFacts(nodes=("MeanBackward0",), outputs_shape=(8, 12, 5), targets_shape=(8, 12)), 1),
        (LossFacts(nodes=("MeanBackward0", "SumBackward1"), outputs_shape=(8, 12), targets_shape=(8, 12)), 1),
        (LossFacts(terms=3), 3),
        (LossFacts(factor=8.0), 8),  # of a sum over 8 places that is divided by the rows
    ],
)
def test_the_cross_entropies_of_a_row_are_its_places_or_several_terms(loss, count):
    assert targets_of_a_row(Evidence(), loss) == count


def test_targets_may_be_flattened_where_inputs_are_not():
    loss = LossFacts(nodes=("MeanBackward0", "SumBackward1"), outputs_shape=(96, 5), targets_shape=(96,))
    assert targets_of_a_row(Evidence(facts=Facts(inputs=BatchFacts(shape=(8, 12)))), loss) == 12
