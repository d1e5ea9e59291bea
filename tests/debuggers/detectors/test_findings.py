"""A broken rule is reported once when it begins; it lasts, ends, and may begin again."""

import json
from itertools import pairwise

import numpy as np
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.testing import MemoryEmitter

from debuggers.detectors import NonFiniteGradient, Observation, announce, gradient_detectors, merge_findings


def feed(detector, observe, counts):
    return [detector.see(observe(step, non_finite=[count])) for step, count in enumerate(counts)]


def test_a_lasting_problem_is_reported_once_and_counted(observe):
    detector = NonFiniteGradient()
    found = feed(detector, observe, [0, 1, 4, 2])
    assert [len(step) for step in found] == [0, 1, 0, 0]
    (finding,) = detector.findings()
    assert (
        finding.step,
        finding.last_step,
        finding.steps,
        finding.value,
        finding.ongoing,
    ) == (1, 3, 3, 4.0, True)
    assert finding.message == "layer0.weight: NaN or infinite elements: 4 at 3 observed steps from 1 to 3"


def test_what_flickers_is_one_finding_until_ten_steps_without_it(observe):
    detector = NonFiniteGradient()
    found = feed(detector, observe, [1, *[0] * 9, 1, *[0] * 10, 1])
    assert [step for step, findings in enumerate(found) if findings] == [0, 21]
    assert [(finding.step, finding.last_step, finding.steps, finding.ongoing) for finding in detector.findings()] == [
        (0, 10, 2, False),
        (21, 21, 1, True),
    ]


def test_what_ended_is_no_longer_ongoing_and_keeps_its_proof(observe):
    detector = NonFiniteGradient()
    feed(detector, observe, [7, *[0] * 10])
    (finding,) = detector.findings()
    assert (finding.ongoing, finding.value) == (False, 7.0)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.booleans(), max_size=60))
def test_findings_cover_every_broken_step_exactly_once(broken):
    detector = NonFiniteGradient()
    for step, now in enumerate(broken):
        values = {"non_finite": np.array([float(now)])}
        detector.see(Observation(step, ["a"], np.ones(1, bool), values))
    findings = detector.findings()
    assert sum(broken) == sum(finding.steps for finding in findings)
    assert all(broken[finding.step] and broken[finding.last_step] for finding in findings)
    assert all(a.last_step + 10 < b.step for a, b in pairwise(findings))


def test_memory_of_findings_is_bounded(observe):
    detector = NonFiniteGradient()
    for step in range(0, 1100 * 11, 11):
        detector.see(observe(step, non_finite=[1]))
        for quiet in range(1, 11):
            detector.see(observe(step + quiet, non_finite=[0]))
    findings = detector.findings()
    assert len(findings) == 1001
    assert findings[-1].step == 1099 * 11


def test_a_thousand_tensors_that_break_at_once_are_one_alert(observe):
    found = NonFiniteGradient().see(observe(5, non_finite=[2] * 1000))
    assert len(found) == 1000
    emitter = MemoryEmitter()
    announce(found, emitter)
    (alert,) = emitter.artifacts
    assert (alert.name, alert.level, alert.step) == ("non_finite_gradient", "error", 5)
    assert alert.message == (
        "layer0.weight, layer1.weight, layer2.weight, layer3.weight, layer4.weight and 995 more: "
        "1000 tensors; in layer0.weight NaN or infinite elements: 2 at step 5"
    )


def test_one_finding_is_announced_as_it_is(observe):
    found = NonFiniteGradient().see(observe(5, non_finite=[2]))
    assert found == merge_findings(found)


def test_a_finding_is_plain_data(observe):
    (finding,) = NonFiniteGradient().see(observe(5, non_finite=[2]))
    assert "layer0.weight" in json.dumps(finding.to_dict())


def test_detectors_see_only_steps_that_hold_their_statistics(observe):
    detectors = gradient_detectors()
    assert detectors.see(observe(0, update_ratio=[1e-3])) == []
    assert [
        finding.kind
        for finding in detectors.see(observe(1, non_finite=[1], norm=[1.0], mean_magnitude=[1e-2], zero_fraction=[0.0]))
    ] == ["non_finite_gradient"]
