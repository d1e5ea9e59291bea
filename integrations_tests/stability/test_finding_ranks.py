"""The rank at fault repeats its step alone, and none hangs; a model that is sharded stops at the module."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRAINING = Path(__file__).with_name("finding_ranks.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    run = subprocess.run(
        [*command, str(TRAINING), str(folder)], capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
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
