import json
import os

import joblib
import numpy as np
import psutil
import pytest
from tracker_adapters.artifacts import sha256_of

from debuggers.errors import PageError
from debuggers.page_files.index import PageRecord, add_to_index
from stepscope.viewer.outputs.page_process import PageProcess


@pytest.fixture(scope="module")
def process():
    process = PageProcess()
    yield process
    process.close()


def _page(folder, datapoints, name="page_0.pkl"):
    path = folder / name
    joblib.dump(datapoints, path)
    return {"page": name, "size": path.stat().st_size, "sha256": sha256_of(path)}


def test_it_describes_and_draws_the_datapoints_of_a_page(tmp_path, process):
    page = _page(tmp_path, {3: {"maps": {"feature_map": np.ones((8, 4, 4))}}})
    request = {"folder": str(tmp_path), "page": page, "idx": 3}
    sections = json.loads(process.ask({"ask": "datapoint", **request}))
    assert sections["debug"][0]["children"][0]["shape"] == [8, 4, 4]
    picture = process.ask({"ask": "picture", "place": [0, 0], "form": "maps", "first": 0, **request})
    assert picture.startswith(b"\x89PNG")


def test_it_says_which_datapoints_are_wrong(tmp_path, process):
    outputs = np.array([0.1, 0.9], np.float32)
    page = _page(
        tmp_path,
        {
            0: {"datapoint": {"outputs": outputs, "labels": 1, "scores": {"loss": 0.25}}},
            1: {"datapoint": {"outputs": outputs, "labels": 0}, "cam": {"error": "no layer"}},
            2: {"cam": {"gradcam": outputs}},
        },
    )
    right, wrong, unknown = json.loads(process.ask({"ask": "judged", "folder": str(tmp_path), "page": page}))
    assert right[:5] == [0, True, 1, 1, 0.25]
    assert wrong[:5] == [1, False, 0, 1, None]
    assert wrong[6] == ["cam"]
    assert unknown == [2, None, None, None, None, None, []]


def test_it_compares_two_epochs(tmp_path, process):
    sides = []
    for epoch in range(2):
        folder = tmp_path / str(epoch)
        folder.mkdir()
        page = _page(folder, {n: {"maps": {"mean": float(n + epoch * (n == 4))}} for n in range(8)})
        sides.append({"folder": str(folder), "pages": [page | {"datapoints": list(range(8))}]})
    found = json.loads(process.ask({"ask": "changes", "sides": sides, "idx": None}))
    assert (found["datapoints"], found["different"], found["largest"]) == (8, 1, [[4, 0.25]])
    assert (found["changes"][0]["datapoint"], found["changes"][0]["place"]) == (4, "maps/mean")
    for idx, different in ((4, 1), (5, 0), (99, 0)):
        one = json.loads(process.ask({"ask": "changes", "sides": sides, "idx": idx}))
        assert (one["datapoints"], one["different"]) == (int(idx < 8), different)


def test_a_page_that_is_refused_is_one_error_and_the_next_is_shown(tmp_path, process):
    class Runs:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    bad, good = _page(tmp_path, {0: Runs()}, "bad.pkl"), _page(tmp_path, {0: {"d": 1.0}}, "good.pkl")
    with pytest.raises(PageError, match=r"bad\.pkl: refused"):
        process.ask({"ask": "datapoint", "folder": str(tmp_path), "page": bad, "idx": 0})
    assert not (tmp_path / "executed").exists()
    process.ask({"ask": "datapoint", "folder": str(tmp_path), "page": good, "idx": 0})


def test_a_link_out_of_the_folder_is_not_followed(tmp_path, process):
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    run.mkdir()
    page = _page(outside, {0: {"d": 1.0}})
    (run / "page_0.pkl").symlink_to(outside / "page_0.pkl")
    (run / "folder").symlink_to(outside)
    for name in ("page_0.pkl", "folder/page_0.pkl", "../outside/page_0.pkl"):
        with pytest.raises(PageError):
            process.ask({"ask": "datapoint", "folder": str(run), "page": page | {"page": name}, "idx": 0})


def test_a_page_that_takes_too_much_memory_ends_the_process_and_nothing_else(tmp_path):
    process = PageProcess(memory_bytes=100 << 20)
    large = _page(tmp_path, {0: {"d": "x" * (150 << 20)}}, "large.pkl")
    small = _page(tmp_path, {0: {"d": 1.0}}, "small.pkl")
    try:
        with pytest.raises(PageError, match=r"large\.pkl: the process that opens pages took more than 100 MB"):
            process.ask({"ask": "datapoint", "folder": str(tmp_path), "page": large, "idx": 0})
        assert process.ask({"ask": "datapoint", "folder": str(tmp_path), "page": small, "idx": 0})
    finally:
        process.close()


def test_a_request_that_takes_too_long_ends_the_process(tmp_path):
    process = PageProcess(timeout_s=0.01)
    page = _page(tmp_path, {0: {"d": 1.0}})
    try:
        process.start()
        psutil.Process(process._child.pid).suspend()  # however slow this process is, that one is slower
        with pytest.raises(PageError, match=r"took longer than 0\.01 s"):
            process.ask({"ask": "datapoint", "folder": str(tmp_path), "page": page, "idx": 0})
    finally:
        process.close()


@pytest.mark.slow
def test_a_large_array_is_described_and_drawn_in_little_memory(tmp_path):
    process = PageProcess(memory_bytes=300 << 20)
    page = _page(tmp_path, {0: {"d": np.zeros((1, 8000, 8000), np.uint8)}})  # 512 MB as float64
    request = {"folder": str(tmp_path), "page": page, "idx": 0}
    try:
        (node,) = json.loads(process.ask({"ask": "datapoint", **request}))["debug"]
        assert node["pictures"][0]["block"] == 11
        assert process.ask({"ask": "picture", "place": [0], "form": "maps", "first": 0, **request})[1:4] == b"PNG"
    finally:
        process.close()


def test_it_reads_the_index_of_a_folder(tmp_path, process):
    page = _page(tmp_path, {7: {"d": 1.0}})
    add_to_index(tmp_path, PageRecord(**page, datapoints=(7,)))
    (tmp_path / "page_9.pkl").write_bytes(b"no page")
    (found,), (refused,) = json.loads(process.ask({"ask": "index", "folder": str(tmp_path)}))
    assert found == page | {"datapoints": [7]}
    assert "page_9.pkl: refused: " in refused
