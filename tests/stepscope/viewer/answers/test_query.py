"""The parameters of addresses: what is wrong is named, with what was expected."""

import pytest

from stepscope.viewer.answers.answer import BadRequest
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
