"""The parameters of addresses: what is wrong is named, with what was expected."""

import numpy as np
import pytest
from observed_runs import Asked, train

import stepscope
from stepscope.viewer.answers.answer import BadRequest, NotFound
from stepscope.viewer.answers.query import Query


def of(**parameters):
    return Query(parameters)


def test_an_address_is_taken_apart():
    path, query = Query.of("series?run=k&name=a%2Fb%20%3Cb%3E&first=")
    assert path == "series"
    assert query.text("name") == "a/b <b>"
    assert query.number("first", 3.0) == 3.0
    assert query.run() == "k"


@pytest.mark.parametrize("path", ["//[a", "///[", "a:b//[::1"])
def test_a_path_is_never_taken_for_a_host(path):
    assert Query.of(f"{path}?run=k")[0] == path.strip("/")


def test_runs_come_once_each_and_one_run_is_a_list_too():
    assert of(runs="a,b,,a").runs() == ["a", "b"]
    assert of(run="a").runs() == ["a"]
    with pytest.raises(BadRequest, match="runs is empty"):
        of().runs()


@pytest.mark.parametrize("text", ["x", "nan", "-1", "11", "1e999", ""])
def test_what_is_no_number_in_range_is_named(text):
    with pytest.raises(BadRequest, match=r"width is .*; expected a number from 0 to 10"):
        of(width=text).number("width", low=0, high=10)


def test_an_integer_is_asked_for():
    assert of(rank="3").whole("rank") == 3
    with pytest.raises(BadRequest, match=r"rank is 1.5; expected an integer"):
        of(rank="1.5").whole("rank")


def test_a_missing_parameter_is_named():
    with pytest.raises(BadRequest, match="the parameter name is missing"):
        of().text("name")


@pytest.mark.parametrize("address", ["s?" + "a" * 70_000, "s?" + "&".join(f"a{i}=1" for i in range(50)), "s?a=%ff"])
def test_an_address_that_is_too_much_or_no_text_is_refused(address):
    with pytest.raises(BadRequest):
        Query.of(address)


@pytest.fixture(scope="module")
def rank_1(tmp_path_factory):
    """A run of which only rank 1 has recorded."""
    folder = tmp_path_factory.mktemp("viewed") / "exp"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANK", "1")
        with stepscope.open_run(folder, sinks=[]) as run:
            train(run, nan_at=5)
            run.at(3).image("samples", np.zeros((2, 3), np.uint8), layout="HW")
            run.at(3).text("note", "of rank 1")
    asked = Asked(folder)
    yield asked
    asked.runs.close()


@pytest.mark.parametrize("rank", [{}, {"rank": 1}], ids=["the lowest rank", "rank 1"])
def test_a_run_without_rank_0_answers_as_every_other(rank_1, rank):
    assert rank_1.json("runs")["runs"][0]["ranks"] == [1]
    names = {entry["name"] for entry in rank_1.json("names", **rank)["names"]}
    assert {"loss", "samples", "note"} <= names
    assert rank_1.columns("series", name="loss", **rank)[1]["step"].size == 40
    assert [one["step"] for one in rank_1.json("images", name="samples", **rank)["images"]] == [3]
    assert rank_1.json("texts", name="note", **rank)["texts"][0]["text"] == "of rank 1"
    assert rank_1.json("layers", **rank)["statistics"]
    verdict = rank_1.json("verdict")
    assert (verdict["state"], [one["rank"] for one in verdict["sessions"]]) == ("bad", [1])
    (row,) = rank_1.json("compare")["runs"]
    assert (row["state"], row["metrics"]["loss"]["step"]) == ("bad", 39)
    assert "non_finite_inputs" in [cause["code"] for cause in rank_1.json("causes")["causes"]]


@pytest.mark.parametrize("path", ["names", "series", "histograms", "layers", "images", "image", "texts", "tables"])
@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_that_the_run_lacks_is_not_found(rank_1, path, rank):
    with pytest.raises(NotFound, match=f"rank is {rank}; expected one that the run has: 1"):
        rank_1.answer(path, name="loss", rank=rank)
