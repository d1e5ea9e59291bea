"""Answers that are kept: those of the same position, within a limit in bytes."""

import gzip

from stepscope.viewer.answers.answer import Answer, json_answer
from stepscope.viewer.kept_answers import Kept, KeptAnswers


def of(size):
    return Kept.of(Answer(bytes(size), "application/octet-stream"))


def test_an_answer_is_that_of_its_position():
    kept, one = KeptAnswers(), of(10)
    kept.put("series?a", "1", one)
    assert kept.get("series?a", "1") is one
    assert kept.get("series?a", "2") is kept.get("series?b", "1") is None


def test_what_was_asked_for_least_lately_goes_first():
    kept = KeptAnswers(max_bytes=100)
    for name in "abcd":
        kept.put(name, "1", of(25))
    assert kept.get("a", "1")
    kept.put("e", "1", of(20))
    assert [name for name in "abcde" if kept.get(name, "1")] == ["a", "c", "d", "e"]
    assert kept.nbytes == 95
    kept.put("a", "2", of(5))
    assert kept.nbytes == 75


def test_an_answer_that_would_drive_out_the_others_is_not_kept():
    kept = KeptAnswers(max_bytes=100)
    kept.put("a", "1", of(26))
    assert kept.get("a", "1") is None
    assert kept.nbytes == 0


def test_long_text_is_zipped_and_numbers_are_not():
    long = json_answer(["the same words"] * 5000)
    zipped = Kept.of(long).zipped
    assert zipped is not None
    assert gzip.decompress(zipped) == long.body
    assert len(zipped) < len(long.body) / 10
    assert Kept.of(json_answer(["short"])).zipped is None
    assert of(10**6).zipped is None
    assert Kept.of(long).etag == Kept.of(long).etag != of(1).etag
