import numpy as np
import pytest
from tracker_adapters.errors import ArtifactError, DamagedError

import stepscope


def _record(path, steps, **options):
    with stepscope.open_run(path, sinks=[], **options) as run:
        for step, value in steps:
            run.at(step).image("picture", np.full((2, 2), value, np.uint8), layout="HW")
    return run.path


def test_what_is_listed_is_what_the_series_has(tmp_path):
    path = _record(tmp_path / "run", [(step, step) for step in range(20)])
    with stepscope.read_run(path) as record:
        listed, images = record.listed("image", "picture"), record.images("picture")
        assert [one.step for one in listed] == [image.step for image in images]
        assert listed[3].meta == {"width": 2, "height": 2}
        assert record.artifact("image", "picture", listed[3].seq) == images[3]


def test_of_a_resumed_run_the_latest_attempt_is_listed(tmp_path):
    path = _record(tmp_path / "run", [(0, 1), (1, 2), (2, 3)])
    _record(path, [(1, 9)], resume=True)
    with stepscope.read_run(path) as record:
        found = [(one.step, record.artifact("image", "picture", one.seq)) for one in record.listed("image", "picture")]
        assert found == [(image.step, image) for image in record.images("picture")]
        assert [step for step, _ in found] == [0, 1, 2]


def test_artifacts_of_a_kind_are_counted(tmp_path):
    path = _record(tmp_path / "run", [(0, 1), (1, 2)])
    with stepscope.read_run(path) as record:
        assert (record.counted("image"), record.counted("page")) == (2, 0)
        with pytest.raises(ArtifactError, match="kind is 'scalar'"):
            record.counted("scalar")


def test_unknown_names_numbers_and_kinds(tmp_path):
    path = _record(tmp_path / "run", [(0, 1)])
    with stepscope.read_run(path) as record:
        assert record.listed("image", "other") == []
        with pytest.raises(ArtifactError, match="no image 'picture' with the number 999"):
            record.artifact("image", "picture", 999)
        with pytest.raises(ArtifactError, match="kind is 'scalar'"):
            record.listed("scalar", "picture")


def test_a_picture_whose_file_is_gone_is_damaged(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (500, 700, 3), np.uint8)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.at(0).image("picture", noise, layout="HWC")
    (blob,) = (run.path / "blobs").glob("*/*")
    blob.unlink()
    with stepscope.read_run(run.path) as record, pytest.raises(DamagedError, match="is gone or damaged"):
        record.artifact("image", "picture", record.listed("image", "picture")[0].seq)
