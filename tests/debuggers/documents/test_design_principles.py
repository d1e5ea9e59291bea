"""The code of the design principles runs as it stands, on the project's own classes."""

import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from debuggers.base_debugger import BaseDebugger
from debuggers.errors import DebuggerConfigError
from debuggers.feature_map import FeatureMapDebugger
from debuggers.pages import PageReader
from debuggers.utils import apply_tensor_op
from debuggers.wrappers.sequential_debugger import SequentialDebugger

BLOCKS = [
    ("python", "class MyCustomDebugger(BaseDebugger):", "d9cd8bcc", "as it is"),
    (
        "python",
        "# Same config pattern as metrics/criteria",
        "52e13218",
        ("entry of the dict `entry`", "body of the method `body`"),
    ),
    ("python", "# Memory-efficient tensor handling", "3da0f76f", "body of the method `body`"),
    ("python", "# Minimal code changes required", "3113bd8b", "body of the method `body`"),
    ("python", "# Easy to add new debugger types", "8e191734", ("as it is", "entry of the dict `entry`")),
]
MAPS = {"name": "maps", "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "backbone.layer4"}}}


@pytest.fixture
def document(open_document):
    return open_document("000_debugger_design_principles.md", BLOCKS)


def test_every_block_is_listed(document):
    document.check_table()


def test_a_custom_debugger(document, model, batch, tmp_path):
    def custom_analysis(datapoint, model):
        return {"largest": datapoint["outputs"].amax(1), "training": model.training}

    names = document.run(0, BaseDebugger=BaseDebugger, custom_analysis=custom_analysis)
    config = [{"name": "custom", "debugger_config": {"class": names["MyCustomDebugger"]}}]
    with SequentialDebugger(config, model) as sequential:
        sequential.begin_epoch(tmp_path)
        batch["outputs"] = model(batch["inputs"])
        returned = sequential(batch, model)["custom"]
    assert torch.equal(batch["outputs"].amax(1), returned["largest"])
    kept = PageReader(tmp_path)[6]["custom"]
    assert kept == {"largest": pytest.approx(batch["outputs"][1].max().item()), "training": False}


def test_the_configuration_pattern_and_the_buffer_thread(document, model):
    names = document.run(1, SequentialDebugger=SequentialDebugger, threading=threading, queue=queue)
    pattern = names["entry"]["debugger"]
    assert list(pattern) == ["class", "args"]
    with pattern["class"](debuggers_config=[MAPS], page_size_mb=1, model=model) as sequential:
        assert list(sequential.debuggers) == ["maps"]

    class Criterion:
        received = None

        def _buffer_worker(self):
            self.received = self._buffer_queue.get()

    criterion = Criterion()
    names["body"](criterion)
    assert criterion._buffer_thread.daemon
    criterion._buffer_thread.start()
    criterion._buffer_queue.put("a page")
    criterion._buffer_thread.join(60)
    assert criterion.received == "a page"


def test_handling_tensors_and_pages(document, model):
    class Paged(SequentialDebugger):
        saved = 0

        def _save_current_page(self):
            self.saved += 1

    live = torch.ones(2, requires_grad=True) * 2
    debug_outputs = {"maps": [live, (live + 1, "text")], "count": 3}
    names = document.run(2, apply_tensor_op=apply_tensor_op, debug_outputs=debug_outputs)
    with Paged([], model, page_size_mb=0.001) as sequential:
        processed = names["body"](sequential)["processed_outputs"]
        assert sequential.saved == 0
        sequential.add_to_buffer({"map": np.ones(1000)}, {"meta_info": {"idx": 0}})
        names["body"](sequential)
        assert sequential.saved == 1
        sequential.reset_buffer()
    assert (processed["count"], processed["maps"][1][1]) == (3, "text")
    assert [processed["maps"][0].tolist(), processed["maps"][1][0].tolist()] == [[2, 2], [3, 3]]
    assert not processed["maps"][0].requires_grad
    assert debug_outputs["maps"][0] is live


def test_the_one_call_in_the_evaluation_step(document, model, batch):
    names = document.run(3, dp=batch)
    model(batch["inputs"])
    names["body"](SimpleNamespace(debugger=None, model=model))
    with SequentialDebugger([MAPS], model) as sequential:
        trainer = SimpleNamespace(debugger=sequential, model=model)
        names["body"](trainer)
        assert "debug" not in batch
        sequential.enabled = True
        model(batch["inputs"])
        names["body"](trainer)
        sequential.reset_buffer()
    expected = model.activations(batch["inputs"])["backbone.layer4"]
    assert torch.equal(expected, batch["debug"]["maps"]["feature_map"])


def test_a_new_debugger_type(document, model, batch):
    names = document.run(4, BaseDebugger=BaseDebugger, new_analysis=lambda: {"new": 1})
    (config,) = names["entry"]["debuggers_config"]
    assert (config["name"], config["debugger_config"]["class"]) == ("new_analysis", names["NewDebuggerType"])
    # The document leaves the arguments out, and says so by an ellipsis.
    with pytest.raises(DebuggerConfigError, match=r"new_analysis.*Ellipsis"):
        SequentialDebugger([config], model)
    config["debugger_config"]["args"] = {}
    with SequentialDebugger([config], model) as sequential:
        sequential.enabled = True
        assert sequential(batch, model) == {"new_analysis": {"new": 1}}
        sequential.reset_buffer()
