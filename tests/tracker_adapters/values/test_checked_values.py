"""A value is checked against an annotation; the message names it and says what was expected."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from msgspec import Meta
from tracker_adapters.errors import SinkConfigError
from tracker_adapters.values.checked_values import PositiveNumber, at_least, check_fields, check_value, is_valid


@dataclass
class Settings:
    mode: Literal["fast", "exact"] = "fast"
    share: Annotated[float, Meta(gt=0, le=1, description="a share")] | None = None
    loud: bool = False
    place: Path | None = None


@pytest.mark.parametrize("value", [1, 1.0, np.float64(1), float("inf"), 1e-300])
def test_an_int_is_a_number_and_so_are_those_of_numpy(value):
    assert is_valid(value, PositiveNumber)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), np.float64("nan"), True, "1", None, [1.0]])
def test_nan_bool_and_text_are_no_number_above_zero(value):
    with pytest.raises(SinkConfigError) as refused:
        check_value("the bound", value, PositiveNumber, SinkConfigError)
    assert str(refused.value) == f"the bound is {value!r}; expected a number above 0"


@pytest.mark.parametrize(("value", "valid"), [(3, True), (4, True), (2, False), (3.0, False), (True, False)])
def test_an_integer_has_a_least_value(value, valid):
    assert is_valid(value, at_least(3)) is valid


def test_fields_are_checked_by_their_annotations():
    check_fields(Settings("exact", 0.5, True, Path()), SinkConfigError)
    check_fields(Settings(place="anything"), SinkConfigError)  # its annotation says nothing of what is expected
    for wrong, message in (
        ({"mode": "slow"}, "Settings: mode is 'slow'; expected 'fast' or 'exact'"),
        ({"mode": ["fast"]}, "Settings: mode is ['fast']; expected 'fast' or 'exact'"),
        ({"share": 2}, "Settings: share is 2; expected a share, or None"),
        ({"loud": 1}, "Settings: loud is 1; expected True or False"),
    ):
        with pytest.raises(SinkConfigError) as refused:
            check_fields(Settings(**wrong), SinkConfigError, "Settings: ")
        assert str(refused.value) == message
