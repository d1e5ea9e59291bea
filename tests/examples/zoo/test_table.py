"""What counts as detected, as named, and as a false alarm."""

from examples.zoo.run import Outcome
from examples.zoo.table import detected, named, table


def outcome(label, causes, health="healthy", also=()):
    variant = "sick" if label else "healthy"
    return Outcome("family/case", "family", variant, "told", 0, label, also, 1.0, causes, health)


def test_a_verdict_detects_but_does_not_name():
    warned = outcome("no_update", (), health="warning")

    assert detected(warned)
    assert not named(warned, 3)


def test_a_code_beside_the_label_counts_as_named():
    assert named(outcome("no_update", (("wrong_mode", 0.5),), also=("wrong_mode",)), 1)


def test_the_table_counts_and_lists_what_was_wrong():
    text = table(
        [
            outcome("no_update", (("no_update", 0.9),)),
            outcome("no_update", (("wrong_mode", 0.9), ("no_update", 0.5))),
            outcome("", (("dead_units", 0.4),)),
        ]
    )

    assert "all                          2      100%    50%   100%      1       1         0" in text
    assert "1 × family/case: no_update, said: wrong_mode 0.90, no_update 0.50 (healthy)" in text
    assert "1 × family/case (healthy) is sound, said: dead_units 0.40" in text
