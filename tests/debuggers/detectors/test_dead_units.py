"""A layer is reported when more than half of its units are dead."""

import math

from debuggers.detectors import DeadUnits


def test_more_than_half_is_found_and_half_is_not(observe):
    (finding,) = DeadUnits().see(observe(4, ["a", "b", "c"], dead_fraction=[0.5, 0.51, math.nan]))
    assert (finding.kind, finding.name, finding.value) == ("dead_units", "b", 0.51)
    assert finding.message == "b: 51% of the units are dead, more than 50% at step 4"
