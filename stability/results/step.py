"""What a stability step returns: plain dicts of plain values, with these keys."""

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from stability.results.debugging import (
    CudaInfo,
    GradientCheck,
    GradientCheckSummary,
    MemoryInfo,
    MemoryLeak,
    MemoryProfile,
    OperatorTime,
    StepTimes,
)

HandlingAction: TypeAlias = Literal["none", "replaced", "zeroed", "scaled", "skipped", "restored"]
AnomalyKind: TypeAlias = Literal[
    "nan_loss",
    "inf_loss",
    "nan_gradient",
    "inf_gradient",
    "gradient_norm_overflow",
    "unusual_step",
    "rank_fault",
    "nothing_to_restore",
    "gradient_check_failed",
    "memory_leak",
]


class ParameterFault(TypedDict):
    """A parameter whose gradient holds NaN or infinities. ``aliases`` are its other names, when it is tied."""

    name: str
    aliases: list[str]
    nan: int
    inf: int
    elements: int


class Anomaly(TypedDict):
    """Something wrong at a step; ``kind`` is also the name of the alert."""

    kind: AnomalyKind
    message: str
    step: int


class NaNStats(TypedDict):
    """What is not finite in the loss and in the gradients (unscaled, before clipping)."""

    handling_type: str
    loss_finite: bool
    gradients_finite: bool
    nan_count: int
    inf_count: int
    parameters: list[ParameterFault]
    scaler_step: bool
    """The gradients overflowed under the GradScaler, here or on another rank: it skips such a step and lowers its
    scale, and there is no alarm."""
    norm_overflow: bool
    """All gradients are finite, but the sum for their norm overflows in their dtype."""
    action: HandlingAction
    """What was done about it; ``none`` also on a step that a GradScaler skips by itself."""
    ranks: list[int]
    """The ranks whose loss is not finite, else those whose gradients are not; empty where ranks do not agree."""
    restored_step: int | None
    """The step at which the snapshot was taken that training went back to."""
    exhausted: bool
    """There was no snapshot to go back to, and the step was skipped instead."""
    buffers_reset: NotRequired[list[str]]
    """Running statistics that were not finite and had to begin anew, because nothing was known of them before."""
    buffers_left: NotRequired[list[str]]
    """Other buffers that are not finite and could not be put back."""
    first_nan: NotRequired[dict[str, Any]]
    """Where it came from, on a step that was repeated to find out: see ``FirstNaN.as_dict``."""


class ClippingStats(TypedDict):
    """What clipping did. Numbers of parameters count tensors."""

    clipping_type: str
    max_norm: float
    norm_type: float
    total_norm: float
    """Before clipping; NaN or infinite when gradients are."""
    clip_coefficient: float
    """The factor that was applied to the gradients; 1.0 when they were left as they are. Where there is not one factor
    for all, the smallest that a gradient, or an element of one, was multiplied by."""
    clipped: bool
    clipped_norm: float | None
    """The total norm after clipping. None where that would take another pass (elements or units were clipped), and
    where clipping was left out because gradients were not finite."""
    threshold: float | None
    """What the total norm, an element's magnitude (``value``, ``percentile``) or a unit's ratio (``agc``) was compared
    with. None where there is not one: nothing was compared, or each parameter has its own (``layer_wise``)."""
    clipped_parameters: int
    """How many gradients were changed."""
    parameters_outside_optimizer: int
    """Trainable parameters of the model that the optimizer does not hold."""
    parameters_outside_model: int
    """Parameters of the optimizer that the model does not hold: nobody looked at their gradients."""


class GradientStats(TypedDict):
    """Norms of the gradients before clipping. Numbers of parameters count tensors; NaN propagates."""

    total_parameters: int
    parameters_with_grad: int
    mean_norm: float
    std_norm: float
    total_norm: float


class DebugInfo(TypedDict):
    """What a debug session saw at a step. ``session_duration`` is in seconds.

    ``gradient_stats`` is there while a session collects, ``memory_info`` when memory debugging is on too,
    ``snapshot_mb`` (of 2**20 bytes) when NaN handling keeps snapshots.
    """

    debug_enabled: bool
    iteration: int
    session_duration: float
    anomaly_detector: bool
    grad_check: bool
    memory_debug: bool
    anomalies_detected: bool
    anomaly_details: list[Anomaly]
    gradient_stats: NotRequired[GradientStats]
    memory_info: NotRequired[MemoryInfo]
    suspect_operations: NotRequired[list[str]]
    """In anomaly mode ``"detect"``, at the first step of a fault: what may have made it, nearest to the loss first."""
    gradient_check: NotRequired[GradientCheck]
    """The check that was done at this step."""
    memory_profile: NotRequired[MemoryProfile]
    cuda: NotRequired[CudaInfo]
    step_times: NotRequired[StepTimes]
    """Of the time since the step before."""
    snapshot_mb: NotRequired[float]


class ToolsEnded(TypedDict):
    """The tools of a session that a limit switched off before it stopped, after which step, and which limit."""

    tools: list[str]
    step: int
    reason: str


class DebugSummary(TypedDict):
    """A session's sums; before the first session, those of the manager's steps without one."""

    session: str
    active: bool
    total_iterations: int
    collected_iterations: int
    """The steps that the tools saw: up to a limit of the configuration."""
    tools_ended: ToolsEnded | None
    """None while the tools are on, and where they went on until the session stopped."""
    anomalies_detected: int
    anomalies_by_kind: dict[str, int]
    last_anomaly: Anomaly | None
    session_duration: float
    peak_rss: float | None
    """In MB of 2**20 bytes; None when memory debugging is off."""
    files: list[str]
    notes: list[str]
    """What a tool could not do, each said once: no CUDA, a folder that cannot be written to."""
    gradient_checks: GradientCheckSummary | None
    """None without gradient checks; likewise below."""
    memory_leaks: list[MemoryLeak]
    """What keeps growing, as of the last step that the tools saw."""
    memory_leaks_ended: list[MemoryLeak]
    """What was told as a leak, and stopped growing: ``steps`` up to its end."""
    memory_profile: MemoryProfile | None
    step_times: StepTimes | None
    """Means over the steps."""
    operators: list[OperatorTime]
    """The operators that took most time of their own in the profiled steps, at most 20."""


class StabilityResult(TypedDict):
    """What ``NumericalStabilityManager.step`` returns."""

    step: int
    loss: float
    nan_stats: NaNStats
    clipping_stats: ClippingStats
    stability_score: float
    debug_info: DebugInfo
