"""Failures are the wrong datapoints, the worst first, with their debug outputs read when they are asked for."""

import numpy as np
import pytest
from debugger_parts import write_pages
from tracker_adapters.artifacts import PageEntry

import stepscope
from debuggers.errors import ArgumentTypeError, DebuggerConfigError, PageError
from debuggers.failed_datapoints import failures
from debuggers.pages import PageReader


def datapoint(idx, **kept):
    return {"maps": {"feature_map": np.full(4, float(idx))}, "datapoint": kept}


def classified(label, **outputs):
    return {"outputs": np.array([outputs.get(f"c{number}", 0.0) for number in range(3)]), "labels": label}


def test_the_wrong_ones_are_listed_with_the_greatest_loss_first(tmp_path):
    losses = {0: 0.5, 1: 3.0, 2: 0.1, 3: np.nan, 4: 7.0}
    pages = [{idx: datapoint(idx, scores={"loss": loss, "correct": idx == 2})} for idx, loss in losses.items()]
    found = failures(write_pages(tmp_path / "debugger", *pages))
    assert [failure.datapoint for failure in found] == [3, 4, 1, 0]
    assert [failure.loss for failure in found[1:]] == [7, 3, 0.5]
    assert (found.wrong, found.right, found.unjudged) == (4, 1, 0)


def test_without_a_loss_the_margin_decides(tmp_path):
    page = {
        8: datapoint(8, **classified(0, c1=1.0)),
        5: datapoint(5, **classified(2, c1=4.0, c2=0.5)),
        6: datapoint(6, **classified(1, c1=1.0)),
        7: datapoint(7, correct=False),
    }
    found = failures(write_pages(tmp_path / "debugger", page))
    expected = [(5, 2, 1, 3.5), (8, 0, 1, 1.0), (7, None, None, None)]
    assert [(each.datapoint, each.label, each.prediction, each.margin) for each in found] == expected


@pytest.mark.parametrize("make", [lambda folder: folder / "debugger", str, lambda folder: folder])
def test_a_folder_may_be_that_of_the_pages_or_the_epoch(tmp_path, make):
    write_pages(tmp_path / "debugger", {0: datapoint(0, correct=False)})
    assert len(failures(make(tmp_path))) == len(failures(PageReader(tmp_path / "debugger"))) == 1


def test_no_more_than_asked_for_are_returned_but_all_are_counted(tmp_path):
    page = {idx: datapoint(idx, correct=False, scores={"loss": idx}) for idx in range(9)}
    found = failures(write_pages(tmp_path / "debugger", page), limit=2)
    assert [failure.datapoint for failure in found] == [8, 7]
    assert found.wrong == 9


def test_debug_outputs_are_read_when_they_are_asked_for(tmp_path):
    folder = write_pages(tmp_path / "debugger", {0: datapoint(0, correct=False)}, {1: datapoint(1, correct=False)})
    first, second = failures(folder)
    assert (second.page, second.step) == (folder / "page_1.pkl", None)
    np.testing.assert_array_equal(np.ones(4), second.outputs["maps"]["feature_map"])
    (folder / "page_0.pkl").write_bytes(b"damaged")
    with pytest.raises(PageError, match=r"page_0\.pkl"):
        assert first.outputs and second.outputs and first.outputs


def test_a_datapoint_counts_as_it_was_last_recorded(tmp_path):
    pages = [{0: datapoint(0, correct=False), 1: datapoint(1, correct=True)}, {0: datapoint(0, correct=True)}]
    found = failures(write_pages(tmp_path / "debugger", *pages))
    assert (found.wrong, found.right) == (0, 2)


def test_what_cannot_be_judged_is_counted(tmp_path):
    page = {0: datapoint(0, correct=False), 1: {"maps": 1.0}, 2: datapoint(2, labels=3)}
    found = failures(write_pages(tmp_path / "debugger", page))
    assert (found.wrong, found.right, found.unjudged) == (1, 0, 2)


def test_pages_that_never_say_what_was_right_are_an_error(tmp_path):
    folder = write_pages(tmp_path / "debugger", {0: datapoint(0, labels=3)})
    with pytest.raises(PageError, match=r"no page says whether .* keep=\['correct'\]"):
        failures(folder)


@pytest.mark.parametrize("limit", [0, -1, 2.0, True])
def test_a_limit_below_one_is_an_error(tmp_path, limit):
    with pytest.raises(DebuggerConfigError, match=f"limit is {limit}; expected an integer of at least 1, or None"):
        failures(tmp_path, limit=limit)


def emit_pages(emitter, folder, with_contents=True):
    for record in PageReader(folder).records:
        contents = [PageEntry(datapoint=idx, debugger="maps", summary="") for idx in record.datapoints]
        emitter.page(folder / record.page, contents=contents if with_contents else ())


@pytest.mark.parametrize("with_contents", [True, False])
def test_the_record_of_a_run_gives_its_last_epoch(tmp_path, with_contents):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for epoch, wrong in enumerate([{0, 1, 2}, {1}]):
            pages = [{idx: datapoint(idx, correct=idx not in wrong)} for idx in range(3)]
            folder = write_pages(tmp_path / f"epoch_{epoch}" / "debugger", *pages)
            emit_pages(run.scoped("val").at(epoch), folder, with_contents)
        folder = write_pages(tmp_path / "train", {1: datapoint(1, correct=False), 5: datapoint(5, correct=True)})
        emit_pages(run.scoped("train").at(1), folder, with_contents)
    with stepscope.read_run(tmp_path / "run") as record:
        found = failures(record)
        assert [(failure.datapoint, failure.step) for failure in found] == [(1, 1), (1, 1)]
        assert (found.wrong, found.right) == (2, 3)
        assert all(failure.page.is_relative_to(tmp_path / "run") for failure in found)
        assert [failure.outputs["maps"]["feature_map"][0] for failure in found] == [1, 1]


def test_a_page_of_a_run_that_is_not_needed_is_not_opened(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for epoch in range(2):
            folder = write_pages(tmp_path / f"epoch_{epoch}", {0: datapoint(0, correct=False, epoch=epoch)})
            emit_pages(run.at(epoch), folder)
    with stepscope.read_run(tmp_path / "run") as record:
        record.pages()[0].path.unlink()
        (failure,) = failures(record)
        assert failure.step == 1


def test_a_run_without_pages_is_an_error(tmp_path):
    stepscope.open_run(tmp_path / "run", sinks=[]).close()
    with stepscope.read_run(tmp_path / "run") as record, pytest.raises(PageError, match="no page"):
        failures(record)


def test_anything_else_than_pages_is_an_error():
    with pytest.raises(ArgumentTypeError, match="record is 5; expected a PageReader"):
        failures(5)
