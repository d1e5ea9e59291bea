import json
import shutil
import time
from urllib.parse import urlencode

import numpy as np
import pytest
import torch
from digit_models import digit_network, digits
from tracker_adapters.artifacts import PageEntry

import stepscope
from debuggers.feature_map import FeatureMapDebugger
from debuggers.gradcam import GradCAMDebugger
from debuggers.integration import after_epoch, before_epoch, checkpoint_indices
from debuggers.page_files.saving import write_page
from debuggers.wrappers.sequential_debugger import SequentialDebugger
from stepscope.viewer.answers.answer import BadRequest, Gone, NotFound
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList

COUNT = 12
CONFIG = [
    {"name": "maps", "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "backbone.conv2"}}},
    {"name": "cam", "debugger_config": {"class": GradCAMDebugger, "args": {"target_layer": "backbone.conv2"}}},
]


def _evaluate(debugger, model, folder, epochs):
    images, labels = digits(COUNT)
    for epoch in range(epochs):
        before_epoch(debugger, folder, epoch, checkpoint_indices("all", epochs))
        with torch.no_grad():
            outputs = model(images)
        scores = {"loss": torch.nn.functional.cross_entropy(outputs, labels, reduction="none")}
        meta_info = {"idx": torch.arange(COUNT), "file": "digits.csv"}
        batch = {"inputs": images, "labels": labels, "outputs": outputs, "scores": scores, "meta_info": meta_info}
        debugger(batch, model)
        after_epoch(debugger)
        with torch.no_grad():
            model.head.bias[0] += 5.0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    model = digit_network().eval()
    kept = ["inputs", "labels", "outputs", "scores", "meta_info"]
    with (
        stepscope.open_run(tmp_path_factory.mktemp("runs") / "digits", sinks=[]) as run,
        SequentialDebugger(CONFIG, model, emitter=run, keep=kept) as debugger,
    ):
        _evaluate(debugger, model, run.path, 2)
    return run.path


@pytest.fixture(scope="module")
def runs(run):
    runs = RunList([run])
    yield runs
    runs.close()


def _json(runs, path, **query):
    (watched,) = runs.all()
    return json.loads(answer(runs, f"{path}?{urlencode({'run': watched.key} | query)}").body)


def test_epochs_are_listed_with_their_folders_names_and_debuggers(runs):
    epochs = _json(runs, "datapoints")["epochs"]
    assert [(epoch["title"], epoch["count"]) for epoch in epochs] == [("epoch_0", COUNT), ("epoch_1", COUNT)]
    assert epochs[0]["debuggers"] == ["maps", "cam"]
    listed = _json(runs, "datapoints", epoch=epochs[1]["key"])
    assert listed["datapoints"] == list(range(COUNT))
    assert listed["of_debugger"] == {"maps": None, "cam": None}


def test_right_and_wrong_are_those_of_the_network(runs):
    _, last = _json(runs, "datapoints")["epochs"]
    found = _json(runs, "judged", epoch=last["key"])
    assert found["errors"] == []
    assert found["label"] == [*range(10), 0, 1]
    assert found["prediction"] == [0] * COUNT  # its bias was raised
    assert found["correct"] == [label == 0 for label in found["label"]]
    assert min(found["loss"]) > 0


def test_a_datapoint_has_its_sections_and_every_picture_an_address(runs):
    epoch = _json(runs, "datapoints")["epochs"][0]["key"]
    sections = _json(runs, "datapoint", epoch=epoch, idx=3)["sections"]
    assert [len(sections[name]) for name in ("inputs", "labels", "meta_info", "debug")] == [1, 3, 1, 2]
    cam = sections["debug"][1]["children"]
    pictures = [picture for node in cam for picture in node.get("pictures", [])]
    assert [picture["form"] for picture in pictures] == ["overlay", "maps"]
    for picture in [*pictures, *sections["inputs"][0]["pictures"]]:
        found = answer(runs, picture["address"])
        assert found.media_type == "image/png"
        assert found.body.startswith(b"\x89PNG")


def test_the_maps_beyond_the_first_are_asked_for_by_their_number(runs):
    epoch = _json(runs, "datapoints")["epochs"][0]["key"]
    found = _json(runs, "datapoint", epoch=epoch, idx=3)["sections"]["debug"][0]
    (picture,) = (node["pictures"][0] for node in found["children"] if node["key"] == "feature_map")
    assert answer(runs, f"{picture['address']}&map=5").body != answer(runs, picture["address"]).body
    with pytest.raises(Gone, match="from 8 on"):
        answer(runs, f"{picture['address']}&map=8")


def test_what_changed_between_two_epochs_is_named(runs):
    (watched,) = runs.all()
    first, second = (epoch["key"] for epoch in _json(runs, "datapoints")["epochs"])
    query = urlencode({"a": watched.key, "a_epoch": first, "b": watched.key, "b_epoch": second})
    found = json.loads(answer(runs, f"changes?{query}").body)
    assert found["datapoints"] == COUNT
    assert "datapoint/outputs" in {change["place"] for change in found["changes"]}
    assert "maps/feature_map" not in {change["place"] for change in found["changes"]}


@pytest.mark.parametrize(
    ("path", "query", "error", "message"),
    [
        ("datapoint", {"epoch": "9.9", "idx": 0}, NotFound, r"no epoch '9\.9'"),
        ("datapoint", {"epoch": "0.0", "idx": 99}, NotFound, "no datapoint 99"),
        ("datapoint", {"epoch": "0.0", "idx": "one"}, BadRequest, "idx is 'one'"),
        ("picture", {"epoch": "0.0", "idx": 0, "place": "0/1", "form": "maps"}, BadRequest, "place is '0/1'"),
        ("picture", {"epoch": "0.0", "idx": 0, "place": "0.0", "form": "film"}, BadRequest, "form is 'film'"),
        ("picture", {"epoch": "0.0", "idx": 0, "place": "9.0", "form": "maps"}, Gone, "leads to nothing"),
    ],
)
def test_what_cannot_be_answered_is_one_clear_error(runs, path, query, error, message):
    with pytest.raises(error, match=message):
        _json(runs, path, **query)


def test_a_damaged_page_is_one_error_and_the_other_epoch_is_shown(run, tmp_path):
    copied = shutil.copytree(run, tmp_path / "damaged")
    shutil.rmtree(copied / "epoch_0")
    with stepscope.read_run(copied) as record:
        page = record.pages()[0].path
    page.chmod(0o600)
    content = page.read_bytes()
    page.unlink()
    page.write_bytes(content[:-10] + b"0123456789")
    runs = RunList([copied])
    first, second = _json(runs, "datapoints")["epochs"]
    assert "checksum" in _json(runs, "judged", epoch=first["key"])["errors"][0]
    with pytest.raises(Gone, match="checksum"):
        _json(runs, "datapoint", epoch=first["key"], idx=0)
    assert _json(runs, "datapoint", epoch=second["key"], idx=0)["sections"]["debug"]
    runs.close()


def test_pages_that_were_not_emitted_are_found_in_the_runs_folder_and_links_are_not(tmp_path):
    model = digit_network().eval()
    outside = tmp_path / "outside"
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, SequentialDebugger(CONFIG, model) as debugger:
        _evaluate(debugger, model, run.path, 1)
        _evaluate(debugger, model, outside, 1)
    (run.path / "epoch_7").symlink_to(outside / "epoch_0")
    (run.path / "epoch_8").mkdir()
    (run.path / "epoch_8/debugger").symlink_to(outside / "epoch_0/debugger")
    runs = RunList([run.path])
    (epoch,) = _json(runs, "datapoints")["epochs"]
    assert (epoch["key"], epoch["title"], epoch["count"]) == ("folder:epoch_0/debugger", "epoch_0", COUNT)
    assert _json(runs, "judged", epoch=epoch["key"])["correct"] == [None] * COUNT
    assert _json(runs, "datapoint", epoch=epoch["key"], idx=2)["sections"]["debug"]
    runs.close()


def test_ten_thousand_datapoints_are_listed_at_once(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for number in range(10):
            first = 1000 * number
            outputs = np.array([0.0, 1.0], np.float32)
            datapoints = {
                idx: {"datapoint": {"outputs": outputs, "labels": idx % 2}} for idx in range(first, first + 1000)
            }
            folder = tmp_path / str(number)
            folder.mkdir()
            record = write_page(folder, number, datapoints)
            contents = [PageEntry(datapoint=idx, debugger="maps", summary="") for idx in datapoints]
            run.at(7).page(folder / record.page, contents=contents, sha256=record.sha256)
    runs = RunList([run.path])
    started = time.process_time()
    (epoch,) = _json(runs, "datapoints")["epochs"]
    assert len(_json(runs, "datapoints", epoch=epoch["key"])["datapoints"]) == 10_000
    assert time.process_time() - started < 2.0
    judged = _json(runs, "judged", epoch=epoch["key"])
    assert sum(judged["correct"]) == 5000
    runs.close()


def test_pages_that_cannot_be_opened_are_named(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    for folder, name in (("epoch_0", "page_0.pkl"), ("epoch_1", "index.json")):
        (tmp_path / "run" / folder / "debugger").mkdir(parents=True)
        (tmp_path / "run" / folder / "debugger" / name).write_text('{"schema_version": 99, "pages": []}')
    answer = _json(RunList([tmp_path]), "datapoints")
    assert answer["epochs"] == []
    page, index = answer["refused"]
    assert "epoch_0/debugger/page_0.pkl: refused: does not start like a page" in page
    assert "epoch_1/debugger/index.json: schema_version is 99" in index
