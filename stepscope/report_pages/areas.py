"""Health by area: which findings, causes and signals belong to the loss, the gradients, the layers and so on."""

from collections.abc import Iterator
from dataclasses import dataclass

from tracker_adapters.wording import counted

from stepscope.report_pages.content import STATE_WORDS, ReportContent


@dataclass(frozen=True, slots=True)
class _Area:
    name: str
    kinds: tuple[str, ...]
    signals: tuple[str, ...]
    codes: tuple[str, ...]


AREAS = (
    _Area(
        "inputs and targets",
        ("input", "target", "label", "batch", "data", "class", "samples"),
        ("inputs/mean", "targets/mean"),
        ("inputs_not_normalized", "inputs_constant", "non_finite_inputs", "target_out_of_range", "labels_unrelated",
         "single_class_labels", "class_imbalance", "unshuffled_data", "duplicated_data", "batch_mixing"),
    ),
    _Area(
        "outputs and loss",
        ("loss", "output", "predict", "accuracy", "overfit", "overtrain"),
        ("loss", "outputs/mean"),
        ("wrong_output_or_loss", "shape_broadcast", "flipped_loss_sign", "loss_sum_not_mean", "overfitting",
         "stopped_too_early"),
    ),
    _Area(
        "gradients",
        ("gradient", "backward", "underflow", "overflow", "by_depth", "clipped"),
        ("total_norm/gradients", "gradient_rms"),
        ("vanishing_gradients", "exploding_gradients", "gradients_not_zeroed", "non_finite_backward", "fp16_underflow",
         "clipping_ineffective", "clipping_too_strong", "accumulation_not_averaged", "detached_parameters"),
    ),
    _Area(
        "weights and updates",
        ("weight", "update", "optimizer", "skipped_steps", "parameter", "initialization"),
        ("update_ratio", "weight_norm"),
        ("learning_rate_too_high", "learning_rate_too_low", "poor_initialization", "unbroken_symmetry",
         "over_regularized", "frozen_parameters", "parameters_not_in_optimizer", "no_update", "schedule_collapsed",
         "missing_warmup", "rank_desync", "non_finite_rank", "hung_rank",
         "ranks_configured_differently"),
    ),
    _Area(
        "layers",
        ("activation", "unit", "layer", "saturat", "mode", "dropout", "varianc", "all_zero"),
        ("output_std", "dead_units", "saturated"),
        ("dead_units", "saturated_units", "non_finite_forward", "wrong_mode"),
    ),
    _Area(
        "time and memory",
        ("memory", "time", "leak", "slow", "stalled", "graphs"),
        ("step_ms", "data_share", "process_mb"),
        ("memory_leak", "data_loading_bound", "straggling_rank"),
    ),
)  # fmt: skip
"""A finding belongs to the first area one of whose words its kind contains."""
_ELSEWHERE, _NOT_MEASURED = "other", "not measured"


@dataclass(frozen=True, slots=True)
class AreaHealth:
    """One area: ``state`` is ``good``, ``warn``, ``bad``, or empty where it was not measured; ``text`` says why."""

    name: str
    state: str
    text: str

    @property
    def word(self) -> str:
        """The state in words."""
        if self.state:
            return "ok" if self.state == "good" else STATE_WORDS[self.state]
        return _NOT_MEASURED if self.text == _NOT_MEASURED else "noted"


def health_by_area(content: ReportContent) -> Iterator[AreaHealth]:
    """Yields the health of each area.

    One without measurements is never called healthy, nor is one with what may follow from a likely cause elsewhere.
    """
    evidence, kinds = content.evidence, {finding.kind for finding in content.evidence.findings}
    homes = {kind: _home(kind) for kind in kinds}
    any_is_likely = any(cause.is_likely for cause in content.causes)
    for name, signals, codes in [*((area.name, area.signals, area.codes) for area in AREAS), (_ELSEWHERE, (), ())]:
        causes = [cause for cause in content.causes if cause.code in codes and cause.is_likely]
        findings = [finding for finding in evidence.findings if homes[finding.kind] == name]
        points = sum(len(evidence[signal]) for signal in signals)
        points += sum(len(series) for signal in signals for series in evidence.of_tensors(signal).values())
        problems = [finding for finding in findings if finding.is_problem]
        noted = ", ".join(sorted({finding.kind for finding in findings}))
        if causes or problems:
            here = sorted({finding.kind for finding in problems})
            texts = [*(cause.title for cause in causes), *([f"found: {', '.join(here)}"] if here else [])]
            bad = bool(causes) or any(finding.level == "error" for finding in problems)
            yield AreaHealth(name, "bad" if bad else "warn", "; ".join(texts))
        elif consequences := [cause for cause in content.causes if cause.code in codes and any_is_likely]:
            yield AreaHealth(name, "warn", "; ".join(f"perhaps: {cause.title}" for cause in consequences))
        elif points:
            seen = f"nothing wrong in {counted(points, 'measured values')}; noted: {noted}"
            yield AreaHealth(name, "good", seen if noted else f"nothing found in {counted(points, 'measured values')}")
        elif noted:
            yield AreaHealth(name, "", f"noted: {noted}")
        elif name != _ELSEWHERE:
            yield AreaHealth(name, "", _NOT_MEASURED)


def _home(kind: str) -> str:
    return next((area.name for area in AREAS if any(word in kind for word in area.kinds)), _ELSEWHERE)
