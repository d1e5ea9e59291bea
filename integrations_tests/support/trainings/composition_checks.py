"""What must hold of a training that was watched, beside the same training alone."""

import math
from itertools import pairwise

import pytest
from composed_observer import Observer
from composed_training import Training
from compositions import Case

import stepscope
from debuggers.gradients.health import Health

NON_FINITE = {
    "non_finite_gradient",
    "non_finite_loss",
    "non_finite_activation",
    "nan_loss",
    "nan_gradient",
    "first_nan",
}


def is_expected_overflow(case: Case) -> bool:
    """Whether a fault looks as a GradScaler's search for its scale does, which is none."""
    return case.scaler and (case.way == "watch" or case.fault == "nan_gradient")


def check_training(alone: Training, watched: Training) -> None:
    """The same bits at every step, and nothing left behind."""
    for number, (one, other) in enumerate(zip(alone.bits, watched.bits, strict=True)):
        assert one == other, f"step {number} differs"
    assert alone.copies == watched.copies
    assert repr(alone.norms) == repr(watched.norms)
    assert repr(alone.losses) == repr(watched.losses)
    assert alone.surface() == watched.surface()


def check_reports(case: Case, training: Training, observer: Observer) -> None:
    """Nothing failed inside, coverage adds up, and a planted fault is told."""
    assert sum(report.coverage.steps for report in observer.reports) == len(training.norms)
    for report in observer.reports:
        overhead, coverage = report.overhead, report.coverage
        assert not report.failures
        assert (
            overhead.measured + overhead.skipped_by_schedule + overhead.skipped_by_governor
            == overhead.steps
            == coverage.steps
        )
        assert coverage.measured <= coverage.probed == coverage.steps
    findings = {(one.kind, one.step) for report in observer.reports for one in report.findings}
    first_nans = {one.step for report in observer.reports for one in report.first_nans}
    alerts = set()
    if observer.places:
        with stepscope.read_run(observer.places[-1]) as record:
            alerts = {(one.name, one.step) for one in record.alerts()}
    assert not {name for name, _ in alerts if name in ("session_failure", "debugger_failed")}
    told = {step for kind, step in findings | alerts if kind in NON_FINITE} | first_nans
    sick = [number for number, values in enumerate(true_values(training)) if not all(map(math.isfinite, values))]
    if case.run or case.break_after is None:  # else each session counts from 0
        assert told <= set(sick)
    if sick and not is_expected_overflow(case):
        assert sick[0] in told if case.run or case.break_after is None else told
        assert not all(report.verdict.health in (Health.HEALTHY, Health.PARTIAL) for report in observer.reports)


def true_values(training: Training) -> list[list[float]]:
    """What is looked at in any case, at each step: the norms, and the loss where it is handed over."""
    losses = [[0.0] if training.case.way == "watch" else [loss] for loss in training.losses]
    return [[*norms.values(), *loss] for norms, loss in zip(training.norms, losses, strict=True)]


def check_record(case: Case, training: Training, observer: Observer) -> None:
    """The record is whole: each series lies on the true axis and has the true values."""
    steps = list(range(len(training.norms)))
    with stepscope.read_run(observer.places[-1]) as record:
        names = record.names()
        for info in names:
            if info.kind != "scalar":
                reads = {"histogram": record.histograms, "text": record.texts, "table": record.tables}
                assert reads[info.kind](info.name) if info.kind in reads else True
                continue
            series = record.scalars(info.name)
            found = series.steps.tolist()
            assert all(a < b for a, b in pairwise(found)), info.name
            if info.name == "beside" or info.name.startswith("critic/"):
                continue
            assert set(found) <= set(steps), info.name
            truths = true_series(training, info.name)
            for step, value in zip(found, series.values.tolist(), strict=True) if truths else ():
                truth = truths[step]
                if truth is not None and math.isfinite(truth):
                    assert value == pytest.approx(truth, rel=2e-5, abs=1e-12), (info.name, step)
        present = {info.name for info in names}
        assert "total_norm/gradients" in present
        sure = ["total_norm/gradients"] + ["loss"] * (case.way != "watch")
        for name in sure:
            assert record.scalars(name).steps.tolist() == steps, name


def true_series(training: Training, name: str) -> list[float | None] | None:
    """The true value at each step, where it is known."""
    if name == "loss":
        return list(training.losses)
    if name == "total_norm/gradients":
        return [math.sqrt(sum(norm**2 for norm in norms.values())) for norms in training.norms]
    if name.startswith("gradient_norm/"):
        return [norms.get(name.removeprefix("gradient_norm/")) for norms in training.norms]
    return None
