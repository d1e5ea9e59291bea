"""Values that break a rule make findings that begin, last, end and come back, in bounded memory."""

import math

from debuggers.detectors import SignalDetector


class Above(SignalDetector):
    kind = "above"
    level = "warning"
    signals = frozenset({"loss", "other"})
    rule = "value > 1"
    evidence = "{value:.1f} is above {threshold:.1f}"

    def check(self, step, signal, value):
        return (value, 1.0) if value > 1 else None


class LastingAbove(Above):
    consecutive = 3


def run(rule, values, start=0):
    return [rule.see(step, "loss", value) for step, value in enumerate(values, start)]


def test_a_period_is_one_finding_with_its_worst_value():
    rule = Above()
    begun = run(rule, [0.5, 2.0, 5.0, 3.0, 0.5])
    assert [finding is not None for finding in begun] == [False, True, False, False, False]
    (finding,) = rule.findings()
    assert (finding.step, finding.last_step, finding.steps, finding.ongoing) == (1, 3, 3, True)
    assert (finding.kind, finding.name, finding.value, finding.threshold) == ("above", "loss", 5.0, 1.0)
    assert finding.evidence == "5.0 is above 1.0"


def test_after_ten_quiet_values_it_begins_anew():
    rule = Above()
    run(rule, [2.0] + [0.0] * 9 + [2.0])
    assert len(rule.findings()) == 1
    run(rule, [0.0] * 10 + [3.0], start=11)
    assert [(finding.step, finding.ongoing) for finding in rule.findings()] == [(0, False), (21, True)]


def test_a_rule_may_need_several_values_in_a_row():
    rule = LastingAbove()
    assert [f is not None for f in run(rule, [2, 2, 0, 2, 2, 2, 2])] == [False] * 5 + [True, False]
    (finding,) = rule.findings()
    assert (finding.step, finding.steps) == (3, 4)


def test_each_signal_has_its_own_findings():
    rule = Above()
    rule.see(0, "loss", 2.0)
    rule.see(1, "other", 3.0)
    assert [(finding.name, finding.value) for finding in rule.findings()] == [("loss", 2.0), ("other", 3.0)]


def test_nan_breaks_no_comparison_and_one_step_is_enough():
    rule = Above()
    assert run(rule, [math.nan]) == [None]
    assert rule.findings() == []


def test_a_thousand_periods_keep_a_hundred():
    rule = Above()
    run(rule, ([2.0] + [0.0] * 10) * 1000)
    assert len(rule.findings()) == 101
