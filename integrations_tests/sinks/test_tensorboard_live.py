"""A TensorBoard that runs all the while shows a rewound run as it is, without a restart."""

import json
from urllib.request import urlopen

import pytest
from tensorboard_runs import opened, tensorboard
from tracker_adapters.artifacts import Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.testing.contract import TIME_NS
from waiting import until


def shown(address):
    with urlopen(f"{address}data/plugin/scalars/tags", timeout=30) as reply:
        if "loss" not in json.load(reply).get("exp1", {}):
            return []
    with urlopen(f"{address}data/plugin/scalars/scalars?run=exp1&tag=loss", timeout=30) as reply:
        return [(step, value) for _, step, value in json.load(reply)]


def write(sink, steps, attempt, *, first_seq):
    scalars = [Scalar(name="loss", value=float(attempt), step=step, time_ns=TIME_NS) for step in steps]
    sink.write(Batch.of(scalars, attempt=attempt, first_seq=first_seq))
    sink.flush()


@pytest.mark.parametrize(
    "load_fast",
    [pytest.param("true", id="data-server"), pytest.param("false", id="python-loader", marks=pytest.mark.slow)],
)
def test_a_rewind_is_followed(tmp_path, load_fast):
    sink = opened(tmp_path / "exp1")
    write(sink, range(20), 1, first_seq=1)
    with tensorboard(tmp_path, "--reload_interval", "1", "--load_fast", load_fast) as address:
        until(lambda: len(shown(address)) == 20)
        write(sink, range(10, 15), 2, first_seq=21)
        wanted = [(step, 1.0) for step in range(10)] + [(step, 2.0) for step in range(10, 15)]
        until(lambda: shown(address) == wanted, 30)
        write(sink, range(15, 18), 2, first_seq=26)
        until(lambda: shown(address) == wanted + [(step, 2.0) for step in range(15, 18)], 30)
    sink.close()
