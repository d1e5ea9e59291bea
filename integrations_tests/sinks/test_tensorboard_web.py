"""What ``tensorboard --logdir`` answers to the browser for a run of ours."""

import json
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from tensorboard_runs import carried, tensorboard
from tracker_adapters.artifacts import Histogram, Image
from tracker_adapters.batch import Batch
from tracker_adapters.testing.contract import one_of_each
from waiting import until

Get: TypeAlias = Callable[..., bytes]
NAMES = ("scalar", "histogram", "image", "text", "alert", "table", "page", "file")


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    sources = tmp_path_factory.mktemp("sources")
    ordinary = [artifact for step in range(3) for artifact in one_of_each(sources, step=step)]
    hard = [Histogram.from_values("empty", [], step=0), Histogram.from_values("huge", [1e300], step=0)]
    return [*ordinary, *one_of_each(sources, name='every "kind"\n'), *hard]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("true", id="data-server"),
        pytest.param("false", id="python-loader", marks=pytest.mark.slow),
    ],
)
def get(request, artifacts, tmp_path_factory):
    """Starts TensorBoard on a free port; yields a function that fetches a path below ``/data/``."""
    runs = tmp_path_factory.mktemp("runs")
    carried(runs / "exp1", Batch.of(artifacts))
    with tensorboard(runs, "--load_fast", request.param) as address:

        def fetch(path, **query):
            with urlopen(f"{address}data/{path}{'?' if query else ''}{urlencode(query)}", timeout=30) as reply:
                content: bytes = reply.read()
            return content

        until(lambda: json.loads(fetch("plugin/histograms/tags")).get("exp1", {}).get("huge"))
        yield fetch


def decoded(get, path, **query):
    return json.loads(get(path, **query))


def test_the_dashboards_are_active(get):
    listing = decoded(get, "plugins_listing")
    active = {name for name, plugin in listing.items() if plugin["enabled"]}
    assert active >= {"timeseries", "scalars", "histograms", "distributions", "images", "text"}


def test_every_tag_is_listed(get):
    shared = 'every "kind"\n'
    assert set(decoded(get, "plugin/scalars/tags")["exp1"]) == {"scalar", shared}
    assert set(decoded(get, "plugin/histograms/tags")["exp1"]) == {
        "histogram", "empty", "huge", f"{shared} (histogram)",
    }  # fmt: skip
    assert set(decoded(get, "plugin/images/tags")["exp1"]) == {
        "image", "curve", "every %22kind%22%0A", "every %22kind%22%0A (curve)",
    }  # fmt: skip
    assert decoded(get, "plugin/images/tags")["exp1"]["every %22kind%22%0A"]["displayName"] == shared
    texts = ("text", "alert", "table", "page", "file")
    assert set(decoded(get, "plugin/text/tags")["exp1"]) == {*texts, *(f"{shared} ({kind})" for kind in texts)}


def test_scalars_are_drawn(get):
    points = decoded(get, "plugin/scalars/scalars", run="exp1", tag="scalar")
    assert [(step, value) for _, step, value in points] == [(0, 0.25), (1, 0.25), (2, 0.25)]


def test_histograms_and_distributions_are_drawn(get):
    for _, _, rows in decoded(get, "plugin/histograms/histograms", run="exp1", tag="histogram"):
        assert (rows[0][0], rows[-1][1], sum(row[2] for row in rows)) == (-2, 3, 1001)
    distributions = decoded(get, "plugin/distributions/distributions", run="exp1", tag="histogram")
    assert [step for _, step, _ in distributions] == [0, 1, 2]


def test_a_histogram_without_finite_elements_is_an_empty_one(get):
    ((_, step, rows),) = decoded(get, "plugin/histograms/histograms", run="exp1", tag="empty")
    assert (step, rows) == (0, [])


def test_images_are_the_bytes_that_were_emitted(get, artifacts):
    image = next(artifact for artifact in artifacts if isinstance(artifact, Image))
    for tag, count in (("image", 3), ("every %22kind%22%0A", 1)):
        shown = decoded(get, "plugin/images/images", run="exp1", tag=tag, sample=0)
        assert len(shown) == count
        for entry in shown:
            assert get(f"plugin/images/individualImage?{entry['query']}") == image.png


def test_texts_are_rendered(get):
    pages = {name: decoded(get, "plugin/text/text", run="exp1", tag=name)[-1]["text"] for name in NAMES[3:]}
    assert "<strong>bold</strong>" in pages["text"]
    assert "<strong>ERROR</strong> fc1: norm 3.1e5" in pages["alert"]
    assert "<td>fc2|x</td>" in pages["table"]
    assert "<td>feature_map float32 (16, 8, 8)</td>" in pages["page"]
    assert "<strong>notes.bin</strong>, 256 bytes" in pages["file"]
