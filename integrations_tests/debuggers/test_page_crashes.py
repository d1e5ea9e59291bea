"""A process that is killed, or that simply ends, leaves only complete pages and an index that fits them."""

import json
import random
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
from tracker_adapters.artifacts import sha256_of

from debuggers.page_files.index import INDEX_NAME, PageRecord, add_to_index, clear_pages
from debuggers.pages import PageReader, load_page, read_index, write_page

KILLS = 30
DATAPOINTS, DATAPOINTS_A_PAGE = 16, 4

WRITE_FOREVER = f"""
import sys
from pathlib import Path
import numpy as np
from debuggers.page_files.buffer import PageBuffer

buffer = PageBuffer(100_000, on_written=lambda *_: print("page", flush=True), on_error=lambda _, error: print(error))
for epoch in range(10**9):
    buffer.reset(60)
    buffer.open(Path(sys.argv[1]) / f"epoch_{{epoch}}", 60)
    for idx in range({DATAPOINTS} * epoch, {DATAPOINTS} * (epoch + 1)):
        buffer.add({{idx: {{"d": {{"map": np.full(2500, idx)}}}}}}, step=idx)
    buffer.save(60)
"""

END_WITHOUT_CLOSING = """
import sys
from pathlib import Path
import numpy as np
from debuggers.page_files.buffer import PageBuffer

buffer = PageBuffer(10_000_000, on_written=lambda *_: None, on_error=lambda _, error: print(error))
buffer.open(Path(sys.argv[1]), 60)
for idx in range(3):
    buffer.add({idx: {"d": np.full(1_000_000, idx)}}, step=idx)
"""


def kill_after_pages(folder, pages, delay_s):
    arguments = [sys.executable, "-c", WRITE_FOREVER, str(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(pages):
            assert process.stdout.readline() == "page\n"
        time.sleep(delay_s)  # the moment of the kill is what is random here
        process.kill()


def records_of(folder):
    """What an index of the folder's pages must say, from the pages alone."""
    paths = sorted(folder.glob("page_*.pkl"), key=lambda path: int(path.stem[5:]))
    return [
        PageRecord(
            page=path.name, size=path.stat().st_size, sha256=sha256_of(path), datapoints=tuple(joblib.load(path))
        )
        for path in paths
    ]


def check_epoch(folder, epoch, *, is_last):
    """Checks the pages of an epoch and its index; returns how many pages there are."""
    expected = records_of(folder)
    index = json.loads((folder / INDEX_NAME).read_bytes()) if (folder / INDEX_NAME).exists() else {"pages": []}
    listed = [PageRecord(**page | {"datapoints": tuple(page["datapoints"])}) for page in index["pages"]]
    # The kill can come between a page and its index, never the other way round.
    assert listed in (expected, expected[:-1]) if is_last else listed == expected
    assert expected == read_index(folder)
    (folder / INDEX_NAME).unlink(missing_ok=True)
    assert expected == read_index(folder)
    assert [record.page for record in expected] == [f"page_{number}.pkl" for number in range(len(expected))]
    for record in expected:
        for idx, outputs in load_page(folder / record.page, size=record.size, sha256=record.sha256).items():
            assert (outputs["d"]["map"] == idx).all()
    first, written = DATAPOINTS * epoch, DATAPOINTS_A_PAGE * len(expected)
    assert list(PageReader(folder)) == list(range(first, first + written))
    assert is_last or written == DATAPOINTS
    return len(expected)


@pytest.mark.slow
def test_kill_at_random_moments_leaves_no_invalid_page_and_no_wrong_index(tmp_path):
    moments = random.Random(7)
    pages = epochs = 0
    for attempt in range(KILLS):
        kill_after_pages(tmp_path / str(attempt), moments.randint(1, 16), moments.uniform(0, 0.01))
        folders = sorted((tmp_path / str(attempt)).iterdir(), key=lambda folder: int(folder.name[6:]))
        assert [folder.name for folder in folders] == [f"epoch_{epoch}" for epoch in range(len(folders))]
        for epoch, folder in enumerate(folders):
            pages += check_epoch(folder, epoch, is_last=epoch == len(folders) - 1)
        epochs += len(folders)
    assert pages > 3 * KILLS
    assert epochs > KILLS


def test_the_next_process_takes_over_what_a_killed_one_left(tmp_path):
    kill_after_pages(tmp_path, 1, 0.01)
    folder = tmp_path / "epoch_0"
    (folder / ".page_7.pkl.part").write_bytes(b"half a page")
    clear_pages(folder)
    assert list(folder.iterdir()) == []
    add_to_index(folder, write_page(folder, 0, {5: {"d": 1}}))
    assert dict(PageReader(folder)) == {5: {"d": 1}}


def test_a_process_that_ends_writes_the_pages_it_had_handed_over(tmp_path):
    subprocess.run([sys.executable, "-c", END_WITHOUT_CLOSING, str(tmp_path)], check=True, timeout=60)
    reader = PageReader(tmp_path)
    assert list(reader) == [0, 1]
    np.testing.assert_array_equal(np.full(1_000_000, 1), reader[1]["d"])
