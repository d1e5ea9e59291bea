import json

import numpy as np
import pytest

import stepscope
from stepscope.viewer.answers.answer import NotFound
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    with stepscope.open_run(tmp_path_factory.mktemp("runs") / "run", sinks=[]) as run:
        for step in range(60):
            run.at(step).image("samples/<b>", np.full((2, 3), step, np.uint8), layout="HW")
        run.at(59).image("samples/<b>", np.full((2, 3), 255, np.uint8), layout="HW")
    runs = RunList([run.path])
    yield runs
    runs.close()


@pytest.fixture(scope="module")
def address(runs):
    (run,) = runs.all()
    return f"run={run.key}&name=samples/%3Cb%3E"


def test_every_step_has_its_image_the_first_too(runs, address):
    images = json.loads(answer(runs, f"images?{address}").body)["images"]
    assert [image["step"] for image in images] == [*range(60), 59]
    assert (images[0]["width"], images[0]["height"]) == (3, 2)
    for step in (0, 31):
        found = answer(runs, f"image?{address}&step={step}")
        assert found.media_type == "image/png"
        assert found.body == answer(runs, f"image?{address}&seq={images[step]['seq']}").body
    assert answer(runs, f"image?{address}&step=0").body != answer(runs, f"image?{address}&step=1").body


def test_of_two_images_at_a_step_the_last_is_that_of_the_step_and_both_have_numbers(runs, address):
    *_, first, last = json.loads(answer(runs, f"images?{address}").body)["images"]
    bodies = [answer(runs, f"image?{address}&seq={one['seq']}").body for one in (first, last)]
    assert bodies[0] != bodies[1]
    assert answer(runs, f"image?{address}&step=59").body == bodies[1]


def test_an_unknown_step_number_or_name_is_not_found(runs, address):
    for query in (f"image?{address}&step=60", f"image?{address}&seq=99999", f"image?{address}x&seq=1"):
        with pytest.raises(NotFound):
            answer(runs, query)
    assert json.loads(answer(runs, f"images?{address}x").body)["images"] == []
