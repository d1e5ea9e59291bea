"""A field of NaN handling that the type does not read is refused by name."""

import dataclasses

import pytest

from stability import NaNHandlingConfig, StabilityConfigError
from stability.handling.config import DEFAULTS, FIELDS_OF_TYPE

OTHER = {
    "nan_value": 1.0,
    "inf_value": 1.0,
    "scale_factor": 0.25,
    "snapshots": 5,
    "snapshot_every": 3,
    "snapshot_place": "device",
    "adaptive_share": 0.5,
    "adaptive_restore_after": 9,
}


def test_each_field_is_read_by_some_type():
    assert set(DEFAULTS) == {name for names in FIELDS_OF_TYPE.values() for name in names} == set(OTHER)


@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize("kind", FIELDS_OF_TYPE)
def test_a_field_is_taken_where_it_is_read_and_refused_elsewhere(kind, name):
    fields = {"handling_type": kind, name: OTHER[name]}
    if name in FIELDS_OF_TYPE[kind]:
        assert getattr(NaNHandlingConfig(**fields), name) == OTHER[name]
    else:
        with pytest.raises(StabilityConfigError, match=f"{name} is {OTHER[name]!r}, which .* {kind!r} does not use"):
            NaNHandlingConfig(**fields)


def test_handling_is_switched_off_by_one_field():
    config = NaNHandlingConfig(handling_type="restore", snapshots=5)

    assert dataclasses.replace(config, handling_type="detect").snapshots == 5
