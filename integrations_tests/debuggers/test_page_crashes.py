"""A process that is killed, or that simply ends, leaves only complete pages and an index that fits them."""

import random
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
from tracker_adapters.artifacts import sha256_of

from debuggers.page_index import PageRecord
from debuggers.pages import PageReader, load_page, read_index

KILLS = 30

WRITE_FOREVER = """
import sys
from pathlib import Path
import numpy as np
from debuggers.page_buffer import PageBuffer

buffer = PageBuffer(100_000, on_written=lambda *_: print("page", flush=True), on_error=lambda _, error: print(error))
buffer.open(Path(sys.argv[1]), 60)
for idx in range(10**9):
    buffer.add({idx: {"d": {"map": np.full(2500, idx)}}}, step=idx)
"""

END_WITHOUT_CLOSING = """
import sys
from pathlib import Path
import numpy as np
from debuggers.page_buffer import PageBuffer

buffer = PageBuffer(10_000_000, on_written=lambda *_: None, on_error=lambda _, error: print(error))
buffer.open(Path(sys.argv[1]), 60)
for idx in range(3):
    buffer.add({idx: {"d": np.full(1_000_000, idx)}}, step=idx)
"""


def kill_after_first_page(folder, delay_s):
    arguments = [sys.executable, "-c", WRITE_FOREVER, str(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "page\n"
        time.sleep(delay_s)  # the moment of the kill is what is random here
        process.kill()


@pytest.mark.slow
def test_kill_at_random_moments_leaves_no_invalid_page_and_no_wrong_index(tmp_path):
    moments = random.Random(7)
    pages = 0
    for attempt in range(KILLS):
        folder = tmp_path / str(attempt)
        kill_after_first_page(folder, moments.uniform(0, 0.1))
        records = read_index(folder)
        assert [record.page for record in records] == [f"page_{number}.pkl" for number in range(len(records))]
        for record in records:
            path = folder / record.page
            expected = PageRecord(
                page=path.name,
                size=path.stat().st_size,
                sha256=sha256_of(path),
                datapoints=tuple(joblib.load(path)),
            )
            assert record == expected
            for idx, outputs in load_page(path, size=record.size, sha256=record.sha256).items():
                assert (outputs["d"]["map"] == idx).all()
        assert list(PageReader(folder)) == list(range(4 * len(records)))
        pages += len(records)
    assert pages > KILLS


def test_a_process_that_ends_writes_the_pages_it_had_handed_over(tmp_path):
    subprocess.run([sys.executable, "-c", END_WITHOUT_CLOSING, str(tmp_path)], check=True, timeout=60)
    reader = PageReader(tmp_path)
    assert list(reader) == [0, 1]
    np.testing.assert_array_equal(np.full(1_000_000, 1), reader[1]["d"])
