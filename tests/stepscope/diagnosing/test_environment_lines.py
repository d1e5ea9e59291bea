"""Environments in words."""

from stepscope.diagnosing.environment_lines import environment_differences, environment_line

FIRST = {"python": "3.11.7", "torch": "2.7.0", "commit": "0123456789abcdef", "changes": "1 file changed",
         "torch_seed": "1", "packages": "numpy==2.1\ntorch==2.7.0"}  # fmt: skip


def test_one_line_says_what_repeats_a_training():
    assert environment_line(FIRST) == (
        "Where it ran: python 3.11.7, torch 2.7.0, commit 0123456789ab (changes: 1 file changed), seed of torch 1, "
        "2 packages."
    )
    assert environment_line({"python": "3.11.7"}) == ""


def test_differences_are_named_one_by_one():
    second = FIRST | {"torch_seed": "2", "packages": "numpy==2.2\npandas==3.0\ntorch==2.7.0"}
    assert environment_differences(FIRST, second) == [
        "Environment that differs:",
        "  torch_seed: 1 against 2",
        "  package numpy: 2.1 against 2.2",
        "  package pandas: none against 3.0",
    ]
    assert environment_differences(FIRST, dict(FIRST)) == ["The environment is the same, as far as it is recorded."]


def test_what_was_not_recorded_is_not_called_equal_or_different():
    assert environment_differences(FIRST, {}) == ["The environment is not recorded of both runs."]
    without = {name: value for name, value in FIRST.items() if name != "packages"}
    assert environment_differences(FIRST, without) == ["The environment is the same, as far as it is recorded."]
