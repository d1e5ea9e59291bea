"""Fully sharded gradients are clipped as whole ones, alike on every rank."""

import json
import math

import pytest
import sharded_training
import torch
from sharded_training import RANKS, clip, network

CASES = {
    "norm": ({"max_norm": 0.1}, 1.0),
    "norm, far below": ({"max_norm": 1e6}, 1.0),
    "norm, p = 1": ({"max_norm": 0.1, "norm_type": 1.0}, 1.0),
    "norm, largest": ({"max_norm": 0.1, "norm_type": math.inf}, 1.0),
    "norm, beyond float32": ({"max_norm": 0.1}, 1e38),
    "global_norm": ({"clipping_type": "global_norm", "max_norm": 0.1}, 1.0),
    "value": ({"clipping_type": "value", "clip_value": 0.01}, 1.0),
    "layer_wise": ({"clipping_type": "layer_wise", "layer_thresholds": {"*": 0.02}}, 1.0),
}
POISONED = [{}, {"norm_type": math.inf}]
REFUSED = ["percentile", "agc"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, warm_python):
    """Each rank's outcomes: of the cases, of the poisoned ones, of the refused ones."""
    folder = tmp_path_factory.mktemp("ranks")
    cases = [(fields, scale, False) for fields, scale in CASES.values()]
    cases += [(fields, 1.0, True) for fields in POISONED]
    cases += [({"clipping_type": name}, 1.0, False) for name in REFUSED]
    warm_python.run_ranks([sharded_training.__file__, str(folder), json.dumps(cases)], folder=folder)
    return [torch.load(f"{folder}/rank_{rank}.pt", weights_only=True) for rank in range(RANKS)]


@pytest.mark.parametrize("name", CASES)
def test_gradients_and_norm_are_those_of_the_whole(outcomes, name):
    fields, _ = CASES[name]
    for rank in range(RANKS):
        found = outcomes[rank][list(CASES).index(name)]
        model = network()
        for parameter, gradient in zip(model.parameters(), found["before"], strict=True):
            parameter.grad = gradient
        stats, _ = clip(model, torch.zeros(()), fields)
        assert stats["total_norm"] == pytest.approx(found["stats"]["total_norm"], rel=1e-5)
        for parameter, gradient in zip(model.parameters(), found["gradients"], strict=True):
            torch.testing.assert_close(parameter.grad, gradient)


@pytest.mark.parametrize("index", range(len(POISONED)))
def test_a_nan_on_one_rank_is_found_by_all_and_nothing_is_clipped(outcomes, index):
    for rank in range(RANKS):
        found = outcomes[rank][len(CASES) + index]
        assert [(fault["name"], fault["nan"], fault["elements"]) for fault in found["faults"]] == [("0.weight", 1, 35)]
        torch.testing.assert_close(found["gradients"], found["before"], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_whole_gradients_is_refused(outcomes, name):
    for rank in range(RANKS):
        error = outcomes[rank][len(CASES) + len(POISONED) + REFUSED.index(name)]
        assert error.startswith(f"the gradient of 0.weight is sharded, which clipping of type {name!r} cannot clip")


@pytest.mark.parametrize("way", ["manager", "session"])
def test_norms_and_weights_of_a_training_are_those_of_clip_grad_norm_to_the_bit(outcomes, way):
    for rank in range(RANKS):
        expected, found = outcomes[rank][-1]["torch"], outcomes[rank][-1][way]
        assert expected["norms"] == found["norms"]
        assert torch.equal(expected["weights"], found["weights"])


def test_a_session_says_once_that_it_measures_the_part_on_its_rank(outcomes):
    for rank in range(RANKS):
        said = [text for text in outcomes[rank][-1]["session"]["alerts"] if "gradients are sharded over ranks" in text]
        assert len(said) == 1
        assert said[0].startswith("8 of 8 gradients")
