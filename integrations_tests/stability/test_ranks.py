"""Two processes under torchrun, NaN on one of them: both decide the same, none hangs, and the rank is named."""

import json
from pathlib import Path

import pytest

TRAINING = Path(__file__).with_name("two_ranks.py")
ACTIONS = {
    "skip": "skipped",
    "restore": "restored",
    "adaptive": "skipped",
    "replace": "replaced",
    "gradient_scaling": "scaled",
}
SCENARIOS = {
    **{f"ddp {kind}": {"handling_type": kind, "ddp": True} for kind in ACTIONS},
    **{f"fsdp {kind}": {"handling_type": kind, "fsdp": True, "gradients_only": True} for kind in ACTIONS},
    **{f"averaged by hand {kind}": {"handling_type": kind} for kind in ACTIONS},
    "loss only": {"handling_type": "skip", "ddp": True, "loss_only": True},
    "gradients only": {"handling_type": "skip", "gradients_only": True},
    "scaler": {"handling_type": "skip", "scaler": True},
    "alone": {"handling_type": "skip", "alone": True},
}


@pytest.fixture(scope="module")
def told(tmp_path_factory, warm_python):
    """What rank 0 and rank 1 tell of each scenario; all are run one after another by one torchrun."""
    folder = tmp_path_factory.mktemp("ranks")
    warm_python.run_ranks([str(TRAINING), str(folder), json.dumps(list(SCENARIOS.values()))], folder=folder)
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]
    return dict(zip(SCENARIOS, zip(*ranks, strict=True), strict=True))


@pytest.mark.parametrize("parallel", ["ddp", "averaged by hand"])
@pytest.mark.parametrize(("kind", "action"), ACTIONS.items())
def test_both_ranks_do_the_same_and_the_one_at_fault_is_named(told, parallel, kind, action):
    ranks = told[f"{parallel} {kind}"]

    for rank in ranks:
        assert ["none", "none", action, "none"] == rank["actions"]
        assert rank["ranks"] == [[], [], [1], []]
        assert rank["alerts"] and all("(rank 1)" in message for message in rank["alerts"])
    assert ranks[0]["weights"] == ranks[1]["weights"], "equal, and so not NaN"


@pytest.mark.parametrize("parallel", ["ddp", "averaged by hand"])
def test_both_ranks_skip(told, parallel):
    for rank in told[f"{parallel} skip"]:
        assert rank["changed"] == [True, True, False, True]


def test_a_loss_that_is_not_finite_on_one_rank_alone_is_told_on_both(told):
    ranks = told["loss only"]

    assert [rank["actions"][2] for rank in ranks] == ["skipped", "skipped"]
    assert ranks[0]["alerts"] == [
        "the loss or a gradient of another rank is not finite (rank 1); the optimizer's step is skipped"
    ]
    assert ranks[1]["alerts"] == ["the loss is nan (rank 1); the optimizer's step is skipped"]


def test_gradients_that_are_not_finite_on_one_rank_alone_name_that_rank(told):
    for rank in told["gradients only"]:
        assert (rank["actions"][2], rank["ranks"][2]) == ("skipped", [1])


def test_an_overflow_under_the_scaler_of_one_rank_is_skipped_by_both_without_an_alarm(told):
    ranks = told["scaler"]

    for rank in ranks:
        assert rank["actions"] == ["none", "none", "skipped", "none"]
        assert rank["changed"] == [True, True, False, True]
        assert rank["alerts"] == []
    assert ranks[0]["weights"] == ranks[1]["weights"]


@pytest.mark.parametrize(("kind", "action"), ACTIONS.items())
def test_sharded_trainings_are_handled_alike_and_stay_finite(told, kind, action):
    """The sum over the ranks was formed in the backward pass, so that both ranks have the fault."""
    ranks = told[f"fsdp {kind}"]

    for rank in ranks:
        assert ("none", action, [0, 1]) == (rank["actions"][1], rank["actions"][2], rank["ranks"][2])
    assert ranks[0]["weights"] == ranks[1]["weights"], "equal, and so not NaN"


def test_without_agreement_each_rank_decides_for_itself(told):
    ranks = told["alone"]

    assert [rank["actions"][2] for rank in ranks] == ["none", "skipped"]
    assert [rank["ranks"][2] for rank in ranks] == [[], []]
