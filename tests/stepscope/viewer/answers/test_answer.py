"""Answers on the wire: arrays keep every bit, JSON keeps NaN and infinities."""

import json
import math

import numpy as np
import pytest
from answer_columns import columns_of

from stepscope.viewer.answers.answer import columns_answer, json_answer


def test_json_has_a_word_for_what_is_no_number():
    value = {"a": [math.nan, math.inf, -math.inf, 1.5], "b": np.float32(2), "c": (1, None, True), 3: "ü\ud800"}
    answer = json_answer(value, "7")
    assert (answer.media_type, answer.position) == ("application/json", "7")
    assert json.loads(answer.body) == {
        "a": ["NaN", "Infinity", "-Infinity", 1.5],
        "b": 2,
        "c": [1, None, True],
        "3": "ü?",
    }


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint32", "uint8"])
def test_arrays_arrive_as_they_are(dtype):
    array = np.arange(15).astype(dtype).reshape(3, 5)
    meta, columns = columns_of(columns_answer({"a": math.nan}, {"x": array.T, "empty": array[:0]}).body)
    assert meta == {"a": "NaN"}
    assert columns["x"].dtype == dtype
    np.testing.assert_array_equal(columns["x"], array.T)
    assert columns["empty"].shape == (0, 5)


def test_steps_go_as_float64_and_truth_as_bytes():
    _, columns = columns_of(columns_answer({}, {"step": np.arange(3), "is": np.array([True, False])}).body)
    assert (columns["step"].dtype, columns["is"].dtype) == (np.float64, np.uint8)


def test_arrays_lie_at_multiples_of_eight():
    body = columns_answer({"name": "x"}, {"a": np.ones(3, np.uint8), "b": np.ones(1)}).body
    assert len(body) % 8 == 0
    assert body.endswith(bytes([1, 1, 1, 0, 0, 0, 0, 0]) + np.ones(1).tobytes())
