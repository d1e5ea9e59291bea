"""Debug files: cut by size without loss, rotated by number, strict JSON, nothing but their own removed."""

import json
import math
import tempfile
from pathlib import Path

from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, PyTorchDebuggingConfig
from stability.reporting.files import rotate, save_debug_files

ENTRIES = st.dictionaries(st.text(max_size=3), st.one_of(st.integers(), st.text(max_size=30), st.none()), max_size=4)


@settings(max_examples=examples(60), deadline=None)
@given(entries=st.lists(ENTRIES, max_size=20), most_bytes=st.integers(2, 400))
def test_what_is_cut_is_whole_again_in_the_order_of_the_names(entries, most_bytes):
    with tempfile.TemporaryDirectory() as folder:
        paths = save_debug_files(Path(folder), "p", {"history": entries}, most_files=1000, most_bytes=most_bytes)
        parts = [json.loads(path.read_text()) for path in sorted(paths)]

        assert [entry for part in parts for entry in part] == entries
        assert sorted(paths) == paths == sorted(Path(folder).iterdir())
        for path, part in zip(paths, parts, strict=True):
            assert path.stat().st_size <= most_bytes or len(part) <= 1


def test_numbers_that_json_lacks_are_texts(tmp_path):
    content = [{"values": [math.nan, math.inf, -math.inf, 1.0], "pair": (1, 2)}]

    (path,) = save_debug_files(tmp_path, "p", {"memory": content})

    assert json.loads(path.read_text()) == [{"values": ["NaN", "Infinity", "-Infinity", 1.0], "pair": [1, 2]}]


def test_only_the_newest_files_of_each_kind_stay_and_others_are_left_alone(tmp_path):
    others = [
        "p_history.json",
        "q_history_20250101_000000_000000.json",
        "p_history_of_mine_20250101_000000_000000.json",
    ]
    for name in others:
        (tmp_path / name).write_text("mine")
    saved = [save_debug_files(tmp_path, "p", {"history": [], "memory": []}, most_files=3) for _ in range(5)]

    left = {path for paths in saved[-3:] for path in paths}
    assert set(tmp_path.iterdir()) == left | {tmp_path / name for name in others}
    rotate(tmp_path, "p", "history", 1)
    assert len(list(tmp_path.glob("p_history_2*"))) == 1


def test_the_sessions_of_a_manager_share_the_limit(tmp_path):
    config = PyTorchDebuggingConfig(debug_output_dir=str(tmp_path), max_debug_files=2)
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), config)
    for number in range(4):
        manager.start_debug_session(f"session {number}")
        files = manager.stop_debug_session()

    assert len(list(tmp_path.iterdir())) == 4 * 2
    assert all(path.exists() for path in files)
