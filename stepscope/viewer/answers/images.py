"""Images of a name: at which steps there are some, and one of them."""

from tracker_adapters.artifacts import Image

from stepscope.viewer.answers.answer import Answer, NotFound, json_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList

PNG = "image/png"


def images_answer(runs: RunList, query: Query) -> Answer:
    """``images?run=K&name=N&rank=0``: every image of a name by step: step, seq, time_ms, width and height."""
    key, name = query.run(), query.text("name")
    rank = query.rank(runs)
    with runs.opened(key) as record:
        position = runs.position(key)
        listed = record.listed(Image.kind, name, rank)
    images = [
        {
            "step": one.step,
            "seq": one.seq,
            "time_ms": one.time_ns / 1e6,
            "width": one.meta.get("width"),
            "height": one.meta.get("height"),
        }
        for one in listed
    ]
    return json_answer({"position": position, "images": images}, position)


def image_answer(runs: RunList, query: Query) -> Answer:
    """``image?run=K&name=N&step=S&rank=0&seq=Q``: a PNG file; without ``seq`` the last image of the step."""
    key, name = query.run(), query.text("name")
    rank = query.rank(runs)
    seq = query.whole("seq", -1, low=-1)
    with runs.opened(key) as record:
        if seq < 0:
            step = query.whole("step", high=2**63)
            at_step = [one.seq for one in record.listed(Image.kind, name, rank) if one.step == step]
            if not at_step:
                raise NotFound(f"there is no image {name[:200]!r} at step {step}")
            seq = at_step[-1]
        image = record.artifact(Image.kind, name, seq, rank)
    assert isinstance(image, Image)
    return Answer(image.png, PNG)
