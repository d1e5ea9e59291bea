"""What a debug session watches, how often, and at what cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from sys import float_info
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from msgspec import Meta
from tracker_adapters.values.checked_values import PositiveInteger, check_fields, unknown_field
from tracker_adapters.values.plain import resolved

from stepscope.errors import ConfigError
from stepscope.sessions.schedule import Schedule

Preset: TypeAlias = Literal["economy", "standard", "full"]
ModuleSelection: TypeAlias = bool | Sequence[str | type]
"""True for all leaf modules, or names, patterns such as ``"blocks.*.linear1"``, and module types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugConfig:
    """The settings of a ``DebugSession``; ``preset`` returns one of three presets. The default is "standard".

    The first eight fields are those of TrustformeRS Debug's ``DebugConfig``, with its names.

    Attributes:
        enable_tensor_inspection: Whether ``session.tensor_inspector`` takes tensors.
        enable_gradient_debugging: Whether gradients, and everything that depends on them, are measured and analysed.
        enable_model_diagnostics: Whether the session emits loss, learning rate, step time and the given metrics.
        enable_visualization: Whether histograms are emitted; otherwise only scalars and findings are.
        max_tracked_tensors: Number of tensors that the inspector keeps; the oldest are dropped first.
        max_gradient_history: Number of measured steps that trends and findings use.
        output_dir: A folder for ``report.json``, ``report.txt`` and ``report.html`` when the session stops, those of
            further ranks in ``rank_1`` and so on, and for traces of the profiler; None for none.
        sampling_rate: Share of the steps, and of the inspector's tensors, to measure, above 0 and at most 1: 0.1 is
            every tenth. It applies to the steps only if ``schedule`` is left at every step.
        schedule: The steps to measure in full. At all others, only the total norm of the gradients is checked.
        first_step: The number of the first step. None continues after the last session in the same run or scope, also
            in a resumed run; without an earlier session it is 0.
        histogram_every: Number of measured steps in a histogram.
        gradients: Whether gradients are measured.
        weights: Whether weights are measured, after each measured update.
        updates: Whether changes of the weights are measured, with their ratio to the weights.
        optimizer_state: Whether the optimizer's moments are measured.
        activations: The modules whose outputs are measured: True for all leaf modules, or names, patterns and types.
        activation_gradients: Whether the gradients with respect to these outputs are measured.
        diagnosis: Whether the signals of the diagnosis are collected: of batches, weights and layers, at sampled steps
            (the first ten, then every 11th up to 100, then every 53rd).
        max_overhead: Limit of the overhead as a share of the step time, such as 0.05: steps that would exceed it are
            skipped and counted. 1 ms a step is always allowed, and the first 100 steps are always measured. None for
            no limit.
    """

    enable_tensor_inspection: bool = True
    enable_gradient_debugging: bool = True
    enable_model_diagnostics: bool = True
    enable_visualization: bool = True
    max_tracked_tensors: PositiveInteger = 1000
    max_gradient_history: PositiveInteger = 200
    output_dir: str | PathLike[str] | None = None
    sampling_rate: float = 1.0
    schedule: Schedule = field(default_factory=Schedule)
    histogram_every: PositiveInteger = 10
    gradients: bool = True
    weights: bool = False
    updates: bool = False
    optimizer_state: bool = False
    activations: ModuleSelection = False
    activation_gradients: bool = False
    diagnosis: bool = True
    max_overhead: (
        Annotated[float, Meta(gt=0, le=float_info.max, description="a share above 0, such as 0.05")] | None
    ) = 0.05
    first_step: Annotated[int, Meta(ge=0, description="an integer of at least 0")] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "activations", resolved(self.activations))
        if isinstance(self.schedule, Mapping):
            object.__setattr__(self, "schedule", _schedule(self.schedule))
        check_fields(self, ConfigError)
        if self.output_dir is not None and not isinstance(self.output_dir, (str, PathLike)):
            raise ConfigError(f"output_dir is {self.output_dir!r}; expected a folder's path or None")
        if not isinstance(self.schedule, Schedule):
            raise ConfigError(f"schedule is {self.schedule!r}; expected a Schedule, such as Schedule(every=10)")
        _check_modules(self.activations)
        rate = Schedule.of_rate(self.sampling_rate)
        if self.schedule == Schedule():
            object.__setattr__(self, "schedule", rate)
        elif rate.every != 1 and self.schedule != rate:
            raise ConfigError(
                f"sampling_rate is {self.sampling_rate} and schedule is {self.schedule}; expected one of the two"
            )

    @classmethod
    def preset(cls, name: Preset, **changes: Any) -> Self:
        """Returns a ready configuration, with changes.

        Args:
            name: ``economy``: gradients at each of the first 100 steps and every tenth later, a histogram for every
                ten of them, at most 2 % of the step time. ``standard``: gradients at every step, a histogram for
                every ten, at most 5 %. ``full``: gradients, weights, updates, optimizer state, activations and
                their gradients with a histogram at every step, whatever it costs.
            changes: Fields to set otherwise.

        Raises:
            ConfigError: For an unknown name, field or value.
        """
        if name not in _PRESETS:
            raise ConfigError(f"preset is {name!r}; expected one of {', '.join(get_args(Preset))}")
        if unknown := unknown_field(cls, changes):
            raise ConfigError(unknown)
        return cls(**{**_PRESETS[name], **changes})

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Returns a copy with changes; a new ``sampling_rate`` takes the place of the schedule that the old one made.

        Raises:
            ConfigError: For an unknown field or a wrong value.
        """
        if unknown := unknown_field(type(self), changes):
            raise ConfigError(unknown)
        if "sampling_rate" in changes and self.schedule == Schedule.of_rate(self.sampling_rate):
            changes = {"schedule": Schedule(), **changes}
        return replace(self, **changes)


_PRESETS: dict[str, dict[str, Any]] = {
    "economy": {"schedule": Schedule(every=10, dense_until=100), "max_overhead": 0.02},
    "standard": {},
    "full": {
        "histogram_every": 1,
        "weights": True,
        "updates": True,
        "optimizer_state": True,
        "activations": True,
        "activation_gradients": True,
        "max_overhead": None,
    },
}


ConfigSpec: TypeAlias = DebugConfig | Preset | Mapping[str, Any]
"""A configuration, a preset's name, or a mapping of fields with ``preset``, as a file of settings has it."""


def as_config(given: ConfigSpec | None, changes: Mapping[str, Any] | None = None) -> DebugConfig:
    """Returns a configuration, a preset by its name, or the default; with changes of its fields.

    Raises:
        ConfigError: For anything else.
    """
    changes = changes or {}
    if given is None:
        return DebugConfig().changed(changes)
    if isinstance(given, Mapping):
        fields = dict(resolved(given))
        return as_config(fields.pop("preset", None), {**fields, **changes})
    if isinstance(given, str):
        return DebugConfig.preset(given, **changes)
    if isinstance(given, DebugConfig):
        return given.changed(changes) if changes else given
    raise ConfigError(f"config is {given!r}; expected a DebugConfig or one of {', '.join(get_args(Preset))}")


def _schedule(fields: Mapping[str, Any]) -> Schedule:
    fields = resolved(fields)
    if unknown := unknown_field(Schedule, fields):
        raise ConfigError(unknown)
    return Schedule(**fields)


def _check_modules(selection: object) -> None:
    if isinstance(selection, bool):
        return
    if isinstance(selection, (list, tuple)) and all(isinstance(item, (str, type)) for item in selection):
        return
    raise ConfigError(f"activations is {selection!r}; expected True, False, or a list of names, patterns and types")
