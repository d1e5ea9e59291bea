"""log10 of a norm beyond mean + 6 sigma of its last 128 values, and ten times their level, or beyond 1e6, explodes."""

import math

import numpy as np
import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from debuggers.detectors import ExplodingGradient, Observation


def feed(detector, observe, norms, *, start=0):
    """One tensor; norms that are not finite are those of a gradient with NaN."""
    found = []
    for step, norm in enumerate(norms, start):
        broken = [int(norm is not None and not math.isfinite(norm))]
        found += detector.see(observe(step, norm=[norm], non_finite=broken))
    return found


def noise(count, *, spread=0.1, seed=0):
    return (10 ** np.random.default_rng(seed).normal(0, spread, count)).tolist()


def reference_limit(norms):
    """The limit's logarithm."""
    logs = np.log10(norms[-128:])
    start = np.log10(norms[:16]).mean()
    return max(logs.mean() + max(6 * logs.std(ddof=1), 1), min(start, 1))


def test_a_spike_is_found_with_the_limit_from_the_steps_before(observe):
    detector, norms = ExplodingGradient(), noise(200)
    (finding,) = feed(detector, observe, [*norms, 500.0])
    assert (finding.kind, finding.level, finding.step, finding.value) == ("exploding_gradient", "error", 200, 500.0)
    assert finding.threshold == pytest.approx(10 ** reference_limit(norms))


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.floats(1e-300, 1e5), min_size=16, max_size=300), st.floats(1e-300, 1e5))
def test_the_rule_equals_the_formula_computed_anew(norms, last):
    detector = ExplodingGradient()
    for step, norm in enumerate([*norms, last]):
        values = {"norm": np.array([norm]), "non_finite": np.zeros(1)}
        broken, limits = detector.check(Observation(step, ["a"], np.ones(1, bool), values))
    expected = min(reference_limit(norms), 6)
    assert math.log10(limits[0]) == pytest.approx(expected, abs=1e-6)
    if abs(math.log10(last) - expected) > 1e-6:
        assert bool(broken[0]) == (math.log10(last) > expected)


def test_nothing_is_judged_before_sixteen_values(observe):
    assert feed(ExplodingGradient(), observe, [1.0] * 15 + [1e5]) == []
    assert len(feed(ExplodingGradient(), observe, [1.0] * 16 + [1e5])) == 1


def test_however_steady_the_norms_were_a_factor_of_nine_is_no_explosion(observe):
    assert feed(ExplodingGradient(), observe, [1.0] * 100 + [9.0]) == []
    assert len(feed(ExplodingGradient(), observe, [1.0] * 100 + [11.0])) == 1


def test_a_norm_below_that_of_the_beginning_is_no_explosion_up_to_ten(observe):
    """Near convergence norms are tiny and swing by orders of magnitude."""
    converged = [norm * 1e-4 for norm in noise(200)]
    assert feed(ExplodingGradient(), observe, [*noise(16), *converged, 0.5]) == []
    assert len(feed(ExplodingGradient(), observe, [*noise(16), *converged, 20.0])) == 1
    huge = [norm * 1e4 for norm in noise(16)]
    assert feed(ExplodingGradient(), observe, [*huge, *converged, 9.0]) == []
    assert len(feed(ExplodingGradient(), observe, [*huge, *converged, 11.0])) == 1


@pytest.mark.parametrize(("norm", "count"), [(2e8, 0), (4e8, 1)])
def test_the_highest_norm_grows_with_the_unit_of_the_loss(observe, norm, count):
    """Targets of ten or twenty thousand may have a constant output's loss of 300."""
    assert len(feed(ExplodingGradient(unit=lambda: 300.0), observe, [norm])) == count


def test_noise_by_factors_raises_no_alarm(observe):
    """Lognormal norms as near the end of training: a third of the steps are off by a factor of more than two."""
    assert feed(ExplodingGradient(), observe, noise(5000, spread=0.3)) == []


def test_non_finite_norms_neither_silence_the_rule_nor_count(observe):
    """One NaN in a running mean would silence it until it ages out."""
    detector = ExplodingGradient()
    assert feed(detector, observe, [*noise(50), math.nan, math.inf, 0.0]) == []
    assert len(feed(detector, observe, [500.0], start=53)) == 1


def test_one_spike_does_not_hide_the_next(observe):
    detector = ExplodingGradient()
    feed(detector, observe, [*noise(100), 1e4, *noise(20), 1e4])
    assert [finding.step for finding in detector.findings()] == [100, 121]


def test_the_window_forgets_what_is_older_than_its_length(observe):
    """A level that was normal once, long ago, is a spike now, unless the training began with it."""
    detector = ExplodingGradient()
    assert feed(detector, observe, [*[norm * 0.2 for norm in noise(16)], *noise(100)]) == []
    assert feed(detector, observe, [norm * 1e-3 for norm in noise(200)], start=116) == []
    assert len(feed(detector, observe, [1.0], start=316)) == 1


def test_a_norm_beyond_a_million_explodes_from_the_first_step_on(observe):
    assert feed(ExplodingGradient(), observe, [1e6]) == []
    (finding,) = feed(ExplodingGradient(), observe, [1.1e6, 1e7, 1e8])
    assert (finding.step, finding.threshold) == (0, 1e6)


def test_steps_at_which_a_tensor_was_not_measured_leave_its_window_alone(observe):
    detector = ExplodingGradient()
    for step in range(200):
        norm = 1.0 if step % 5 == 0 else None
        detector.see(observe(step, norm=[norm, 1.0], non_finite=[None if norm is None else 0, 0]))
    found = detector.see(observe(200, norm=[100.0, 100.0], non_finite=[0, 0]))
    assert [finding.name for finding in found] == ["layer0.weight", "layer1.weight"]


def test_limits_are_the_same_bits_whether_all_tensors_were_seen_as_often_or_not(observe):
    """The row that is missing now and then keeps the others from being taken together."""
    together, apart = ExplodingGradient(), ExplodingGradient()
    series = np.array([noise(300, seed=seed, spread=0.6) for seed in range(3)])
    series[:, 40] *= 1e5
    for step, norms in enumerate(series.T.tolist()):
        missing = None if step % 7 == 0 else 0.5
        broken, limits = together.check(observe(step, norm=norms, non_finite=[0, 0, 0]))
        other_broken, other_limits = apart.check(observe(step, norm=[*norms, missing], non_finite=[0, 0, 0, 0]))
        assert broken.tolist() == other_broken[:3].tolist()
        assert limits.tolist() == other_limits[:3].tolist()
        assert broken.all() == (step == 40)


@pytest.mark.parametrize(("last", "is_one"), [(0.9e-4, False), (1.1e-4, True)])
def test_what_may_be_rounding_beside_the_other_gradients_is_no_explosion(observe, last, is_one):
    detector, found = ExplodingGradient(), []
    for step, small in enumerate([1e-7] * 30 + [last]):
        found += detector.see(observe(step, norm=[1.0, small], non_finite=[0, 0]))
    assert [finding.step for finding in found] == [30] * is_one
