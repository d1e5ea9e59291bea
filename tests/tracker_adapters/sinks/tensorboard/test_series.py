"""Which tag shows what, where a series has an entry at the step already."""

import pytest
from tracker_adapters.sinks.tensorboard.series import MAX_FURTHER_TAGS, SeriesIndex


def take(index, step):
    series = index.with_room("text", "notes", step)
    if series is None:
        return None
    series.last_step = step
    return series.tag


def test_texts_of_one_step_take_further_tags_which_later_steps_use_again():
    index = SeriesIndex()
    index.add("text", "notes")
    assert [take(index, step) for step in (1, 1, 1, 2, 2, 1)] == [
        "notes", "notes (text)", "notes (text 2)", "notes", "notes (text)", None,
    ]  # fmt: skip


def test_a_name_whose_step_never_moves_does_not_fill_tensorboard_with_tags():
    index = SeriesIndex()
    index.add("text", "notes")
    tags = [take(index, 0) for _ in range(MAX_FURTHER_TAGS + 10)]
    assert len({tag for tag in tags if tag}) == MAX_FURTHER_TAGS + 1
    assert tags[-9:] == [None] * 9


@pytest.mark.parametrize("scope", ["", "val/"])
def test_a_report_stands_before_the_other_texts_of_its_session(scope):
    names = [f"{scope}stepscope/{name}" for name in ("evidence", "page", "report", "rank")]
    index = SeriesIndex()
    for name in names:
        index.add("text", name)
    series = index.of_kind("text")
    assert min(series[name].tag for name in names) == series[f"{scope}stepscope/report"].tag
    assert f"{scope}stepscope/report".encode() in series[f"{scope}stepscope/report"].metadata  # shown by its name
