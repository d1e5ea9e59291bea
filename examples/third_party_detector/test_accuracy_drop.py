"""The rule, on the numbers of some validations."""

from accuracy_drop import AccuracyDrop


def test_a_drop_is_one_finding():
    rule = AccuracyDrop()
    found = [rule.see(step, "validation/accuracy", value) for step, value in enumerate([0.5, 0.8, 0.75, 0.6, 0.5])]
    assert [finding is not None for finding in found] == [False, False, False, True, False]
    assert rule.findings()[0].message == (
        "validation/accuracy: the accuracy 0.5 is below 0.7, 0.1 under the best at 2 observed steps from 3 to 4"
    )
