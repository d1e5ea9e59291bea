"""Names of scalars: what comes first, and what tells the last step."""

import pytest
from tracker_adapters.values.metric_names import by_weight, last_step


def test_losses_come_first_and_what_is_of_tensors_or_of_the_machine_last():
    names = ["system/memory", "gradient_norm/fc", "score", "D/update_ratio/fc", "a/b", "accuracy", "loss"]
    assert by_weight(names)[:4] == ["loss", "accuracy", "score", "a/b"]
    assert set(by_weight(names)[4:]) == {"system/memory", "gradient_norm/fc", "D/update_ratio/fc"}


@pytest.mark.parametrize(
    ("names", "last"),
    [
        ([("loss", 4), ("validation/loss", 3)], 4),
        ([("loss", 4), ("system/memory", 90)], 4),  # seconds
        ([("loss", 4), ("filesystem/free", 9)], 9),
        ([("system/memory", 90)], None),
        ([], None),
    ],
)
def test_the_last_step_is_that_of_the_training(names, last):
    assert last_step(names) == last
