"""The example names each of its five bugs: the module and the operator, in the run's alerts too."""

import os
from pathlib import Path

import pytest

import stepscope

EXAMPLE = Path(__file__).parents[2] / "examples" / "find_the_nan.py"
NAMED = {
    "log(0) in a loss": "the loss: aten::log in the forward pass",
    "sqrt at 0 in backward": "0 (Length): aten::sqrt in the backward pass",
    "float16 overflow": "0 (Energy): aten::mm in the forward pass",
    "attention mask of all -inf": "0 (Attention): aten::_softmax in the forward pass",
    "exploding learning rate": "1 (Linear): aten::addmm in the forward pass",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, warm_python):
    folder = tmp_path_factory.mktemp("example")
    done = warm_python.run([str(EXAMPLE), "runs"], folder=folder, environment=os.environ)
    assert done.returncode == 0, done.stderr
    return folder / "runs"


@pytest.mark.parametrize("bug", NAMED)
def test_a_bug_is_named(bug, folder):
    record = stepscope.read_run(folder / bug.replace(" ", "_"))
    messages = [alert.message for alert in record.alerts() if alert.name == "first_nan"]

    assert len(messages) == 1
    assert NAMED[bug] in messages[0]
    assert [page.name for page in record.pages()] == ["first_nan"]
