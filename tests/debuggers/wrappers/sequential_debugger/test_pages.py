"""What the debuggers return reaches the pages: complete, unchanged, in the epoch's own folder."""

import re
import shutil
import threading
import weakref

import joblib
import numpy as np
import pytest
import torch
from digit_models import digit_network, digits
from torch import nn
from tracker_adapters.testing import MemoryEmitter
from waiting import in_threads

from debuggers.base_debugger import BaseDebugger
from debuggers.errors import (
    ArgumentTypeError,
    ClosedDebuggerError,
    DatapointError,
    DebuggerConfigError,
    PageError,
)
from debuggers.feature_map import FeatureMapDebugger
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger


class Inputs(BaseDebugger):
    """Returns the live inputs themselves."""

    def __call__(self, datapoint, model):
        return {"inputs": datapoint["inputs"]}


DEADLINE_S = 60
INPUTS = {"name": "inputs", "debugger_config": {"class": Inputs}}
MAPS = {"name": "maps", "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "backbone.conv1"}}}


def record(sequential, count, kilobytes=4, first=0):
    for idx in range(first, first + count):
        sequential({"inputs": torch.full((kilobytes, 256), float(idx)), "meta_info": {"idx": idx}}, nn.Identity())


def inputs_debugger(**options):
    return SequentialDebugger([INPUTS], nn.Identity(), page_size_mb=10 / 1024, **options)


def test_pages_roll_over_in_every_epoch_into_its_own_folder(tmp_path):
    with inputs_debugger() as sequential:
        for epoch in range(3):
            folder = tmp_path / f"epoch_{epoch}"
            sequential.begin_epoch(folder)
            assert sequential.output_dir == folder
            record(sequential, 5, first=10 * epoch)
            assert sequential.current_page_idx == 2
            sequential.save_all()
    for epoch in range(3):
        reader = PageReader(tmp_path / f"epoch_{epoch}")
        assert [record.page for record in reader.records] == ["page_0.pkl", "page_1.pkl", "page_2.pkl"]
        assert list(reader) == list(range(10 * epoch, 10 * epoch + 5))


def test_a_folder_that_is_named_only_at_the_end_gets_all_pages(tmp_path):
    with inputs_debugger() as sequential:
        sequential.enabled = True
        record(sequential, 7)
        assert sequential.current_page_idx == 3
        sequential.save_all(tmp_path / "late")
        reader = PageReader(tmp_path / "late")
        assert list(reader) == list(range(7))
        assert [record.page for record in reader.records] == [f"page_{number}.pkl" for number in range(4)]


def test_plain_joblib_reads_a_page(tmp_path):
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path)
        record(sequential, 2)
        sequential.save_all()
    page = joblib.load(tmp_path / "page_0.pkl")
    assert list(page) == [0, 1]
    np.testing.assert_array_equal(np.ones((4, 256), np.float32), page[1]["inputs"]["inputs"])


def test_no_later_change_reaches_a_page(tmp_path):
    with inputs_debugger(keep=("inputs",)) as sequential:
        sequential.begin_epoch(tmp_path)
        live = torch.zeros(2, 4)
        outputs = sequential({"inputs": live, "meta_info": {"idx": 0}}, nn.Identity())
        live += 1
        outputs["inputs"]["inputs"] += 1
        sequential.save_all()
    entry = PageReader(tmp_path)[0]
    assert entry["inputs"]["inputs"].sum() == 0
    assert entry["datapoint"]["inputs"].sum() == 0


def test_a_batch_is_split_into_its_datapoints(tmp_path):
    model, (images, labels) = digit_network(), digits(5)
    with SequentialDebugger([MAPS], model, keep=("labels", "outputs", "meta_info", "scores")) as sequential:
        sequential.begin_epoch(tmp_path)
        outputs = model(images)
        datapoint = {
            "inputs": images,
            "labels": labels,
            "outputs": outputs,
            "meta_info": {"idx": torch.arange(5) + 20, "path": list("abcde")},
        }
        returned = sequential(datapoint, model)
        assert returned["maps"]["feature_map"].shape == (5, 4, 8, 8)
        sequential.save_all()
    reader = PageReader(tmp_path)
    assert list(reader) == [20, 21, 22, 23, 24]
    entry = reader[23]
    assert entry["maps"]["feature_map"].shape == (4, 8, 8)
    np.testing.assert_array_equal(outputs[3].detach(), entry["datapoint"]["outputs"])
    assert entry["datapoint"]["labels"] == labels[3]
    assert entry["datapoint"]["meta_info"] == {"idx": 23, "path": "d"}
    assert "scores" not in entry["datapoint"]
    assert "inputs" not in entry["datapoint"]


def test_one_index_for_a_batch_is_one_entry(tmp_path):
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path)
        sequential({"inputs": torch.ones(3, 4), "meta_info": {"idx": 8}}, nn.Identity())
        sequential.save_all()
    assert PageReader(tmp_path)[8]["inputs"]["inputs"].shape == (3, 4)


@pytest.mark.parametrize(
    ("meta_info", "reason"),
    [
        (None, r"no \['meta_info'\]\['idx'\]"),
        ({"idx": ["a", "b", "c"]}, "keep text under another key"),
        ({"idx": [1, 1, 1]}, "which has 1 twice"),
        ({"idx": [1, 2]}, "2 indices, and inputs, labels and outputs have 3 rows"),
    ],
)
def test_an_index_of_no_use_costs_the_page_and_not_the_loop(meta_info, reason):
    emitter = MemoryEmitter()
    with inputs_debugger(emitter=emitter) as sequential:
        sequential.enabled = True
        for _ in range(2):
            outputs = sequential({"inputs": torch.ones(3, 1), "meta_info": meta_info}, nn.Identity())
            assert outputs["inputs"]["inputs"].shape == (3, 1)
        assert (sequential.current_page_data, sequential.step) == ({}, 2)
        assert sequential.failures == {("keeping a datapoint", "DatapointError"): 2}
    (alert,) = [artifact for artifact in emitter.artifacts if artifact.kind == "alert"]
    assert re.search(reason, alert.message)


def test_an_index_of_no_use_is_an_error_where_it_was_asked_to_be():
    with inputs_debugger(on_error="raise") as sequential:
        sequential.enabled = True
        with pytest.raises(DatapointError, match=r"no \['meta_info'\]\['idx'\]"):
            sequential({"inputs": torch.ones(1)}, nn.Identity())


def shown(folder):
    return {idx: outputs["inputs"]["inputs"][0, 0] for idx, outputs in PageReader(folder).items()}


def record_values(sequential, value, count=5):
    for idx in range(count):
        sequential({"inputs": torch.full((4, 256), float(value)), "meta_info": {"idx": idx}}, nn.Identity())


def test_what_is_recorded_after_saving_leaves_the_saved_epoch_alone(tmp_path):
    emitter = MemoryEmitter()
    with inputs_debugger(emitter=emitter) as sequential:
        sequential.enabled = True
        for value in (1, 2):
            sequential.reset_buffer()
            record_values(sequential, value)
            sequential.save_all(tmp_path / f"{value}")
            record_values(sequential, 10)  # another evaluation with the debugger still enabled
    assert [shown(tmp_path / f"{value}") for value in (1, 2)] == [dict.fromkeys(range(5), value) for value in (1, 2)]
    (alert,) = [artifact for artifact in emitter.artifacts if artifact.kind == "alert"]
    assert "not saved" in alert.message


def test_what_is_recorded_after_saving_goes_to_the_folder_that_is_named_next(tmp_path):
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path / "a")
        record_values(sequential, 1)
        sequential.save_all()
        record_values(sequential, 2)
        sequential.save_all(tmp_path / "b")
        sequential.output_dir = tmp_path / "c"
        record_values(sequential, 3)
        assert sequential.output_dir == tmp_path / "c"
        sequential.save_all()
        assert sequential.failures == {}
    for folder, value in (("a", 1), ("b", 2), ("c", 3)):
        assert shown(tmp_path / folder) == dict.fromkeys(range(5), value)
        assert [record.page for record in PageReader(tmp_path / folder).records] == [
            "page_0.pkl",
            "page_1.pkl",
            "page_2.pkl",
        ]


def test_saving_again_in_the_same_folder_adds_to_it(tmp_path):
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path)
        for first in (0, 5, 10):
            record(sequential, 5, first=first)
            sequential.save_all()
        sequential.save_all()
        assert sequential.failures == {}
    reader = PageReader(tmp_path)
    assert list(reader) == list(range(15))
    assert [record.page for record in reader.records] == [f"page_{number}.pkl" for number in range(9)]


def test_saving_twice_in_different_folders_is_refused(tmp_path):
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path / "a")
        record(sequential, 5)
        sequential.save_all()
        sequential.save_all(tmp_path / "b")
        assert sequential.failures == {("saving the pages", "PageError"): 1}
    assert not (tmp_path / "b").exists()
    assert list(PageReader(tmp_path / "a")) == list(range(5))


def test_resetting_forgets_what_was_not_saved(tmp_path):
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path / "a")
        record(sequential, 1)
        sequential.reset_buffer()
        assert (sequential.output_dir, sequential.current_page_size, sequential.current_page_data) == (None, 0, {})
        sequential.begin_epoch(tmp_path / "b")
        record(sequential, 1, first=5)
        sequential.save_all()
    assert list(PageReader(tmp_path / "b")) == [5]


def test_closing_saves_what_is_unsaved(tmp_path):
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path)
        record(sequential, 3)
    assert list(PageReader(tmp_path)) == [0, 1, 2]


def test_closing_without_a_folder_says_what_is_lost():
    emitter = MemoryEmitter()
    with inputs_debugger(emitter=emitter) as sequential:
        sequential.enabled = True
        record(sequential, 1)
    assert "not saved" in emitter.artifacts[-1].message


def test_saving_without_a_folder_is_an_error():
    with pytest.raises(DebuggerConfigError, match="no output_dir"):
        inputs_debugger().save_all()


def test_a_disk_that_fails_hangs_nothing_and_raises_an_alert(tmp_path):
    emitter = MemoryEmitter()
    with inputs_debugger(emitter=emitter) as sequential:
        sequential.begin_epoch(tmp_path / "gone")
        shutil.rmtree(tmp_path / "gone")
        record(sequential, 5)
        sequential.save_all()
        assert sequential.failures == {("writing a page", "FileNotFoundError"): 3}
    (alert,) = [artifact for artifact in emitter.artifacts if artifact.kind == "alert"]
    assert "writing a page failed: FileNotFoundError" in alert.message


def test_a_disk_that_fails_raises_where_it_was_asked_to(tmp_path):
    sequential = inputs_debugger(on_error="raise")
    sequential.begin_epoch(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    record(sequential, 1)
    with pytest.raises(PageError, match=r"1 page\(s\) not written"):
        sequential.save_all()


def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path / "file" / "debugger")
        record(sequential, 5)
        sequential.save_all(tmp_path / "elsewhere")
    assert list(PageReader(tmp_path / "elsewhere")) == list(range(5))


def test_eight_threads_keep_every_datapoint_exactly_once(tmp_path):
    start = threading.Barrier(8)
    with SequentialDebugger([], nn.Identity(), page_size_mb=25 / 1024) as sequential:
        sequential.begin_epoch(tmp_path)

        def add(first):
            start.wait(DEADLINE_S)
            for idx in range(first, 2500, 8):
                sequential.add_to_buffer({"d": {"value": torch.full((20,), idx)}}, {"meta_info": {"idx": idx}})

        in_threads(add, range(8))
        sequential.save_all()
        assert sequential.failures == {}
    reader = PageReader(tmp_path)
    assert sorted(idx for record in reader.records for idx in record.datapoints) == list(range(2500))
    assert all((outputs["d"]["value"] == idx).all() for idx, outputs in reader.items())
    assert len(reader.records) > 10


def test_a_folder_that_can_be_made_later_gets_the_pages(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path / "file" / "debugger")
        record(sequential, 5)
        (tmp_path / "file").unlink()
        sequential.save_all()
    assert list(PageReader(tmp_path / "file" / "debugger")) == list(range(5))


def test_a_folder_that_can_never_be_made_loses_the_pages_and_says_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    emitter = MemoryEmitter()
    with inputs_debugger(emitter=emitter) as sequential:
        sequential.begin_epoch(tmp_path / "file" / "debugger")
        record(sequential, 5)
        sequential.save_all()
    alerts = [artifact.message for artifact in emitter.artifacts if artifact.kind == "alert"]
    assert len(alerts) == 2
    assert "opening the pages' folder failed: NotADirectoryError" in alerts[0]
    assert "not saved" in alerts[1]


def test_pages_that_could_not_be_written_free_their_memory(tmp_path):
    with inputs_debugger() as sequential:
        sequential.begin_epoch(tmp_path / "gone")
        shutil.rmtree(tmp_path / "gone")
        large = np.zeros(6 << 20, np.uint8)
        arrays = []
        for idx in range(4):
            sequential.add_to_buffer({"d": large}, {"meta_info": {"idx": idx}})
            arrays.append(weakref.ref(sequential.current_page_data[idx]["d"]))
        # Page 2 was taken only once page 1 had failed. The log may hold on to page 0, whose failure is the one it has.
        assert arrays[1]() is None


def test_a_page_that_fills_slowly_does_not_hold_the_memory_of_another_debugger():
    with inputs_debugger() as slow, inputs_debugger() as fast:
        for sequential in (slow, fast):
            sequential.add_to_buffer({"d": np.zeros(10)}, {"meta_info": {"idx": 0}})
        blocks = [sequential.current_page_data[0]["d"].base for sequential in (slow, fast)]
        assert blocks[0] is not blocks[1]


@pytest.mark.parametrize("outputs", [{1: torch.ones(1)}, torch.ones(1), [("d", 1)]])
def test_outputs_that_no_page_could_hold_are_an_error_at_the_call(outputs):
    with inputs_debugger() as sequential, pytest.raises(ArgumentTypeError, match=r"outputs: .*expected a "):
        sequential.add_to_buffer(outputs, {"meta_info": {"idx": 0}})


def test_nothing_is_added_to_a_closed_debugger():
    sequential = inputs_debugger()
    sequential.close()
    with pytest.raises(ClosedDebuggerError, match="closed"):
        sequential.add_to_buffer({"d": 1}, {"meta_info": {"idx": 0}})
