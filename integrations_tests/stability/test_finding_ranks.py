"""The rank at fault repeats its step alone, and none hangs; a model that is sharded stops at the module."""

import json
from pathlib import Path

import pytest

TRAINING = Path(__file__).with_name("finding_ranks.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory, warm_python):
    folder = tmp_path_factory.mktemp("ranks")
    warm_python.run_ranks([str(TRAINING), str(folder)], folder=folder)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("way", ["ddp", "ddp closure"])
def test_the_rank_at_fault_names_the_operator_and_the_other_is_silent(told, way):
    assert told[0][way]["found"] == []
    ((step, module, message),) = told[1][way]["found"]
    assert (step, module) == (2, "0")
    assert "aten::addmm" in message
    assert told[0][way]["finite"] and told[1][way]["finite"]


def test_a_sharded_model_is_not_repeated_and_the_module_is_named(told):
    ((step, module, message),) = told[1]["fsdp"]["found"]
    assert (step, module) == (2, "0")
    assert "computes together with other processes" in message
