"""What a debug session watches, how often, and at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from os import PathLike
from typing import Any, Literal, Self, TypeAlias, get_args

from stepscope.errors import ConfigError
from stepscope.sessions.schedule import Schedule

Preset: TypeAlias = Literal["economy", "standard", "full"]
ModuleSelection: TypeAlias = bool | Sequence[str | type]
"""True for all leaf modules, or names, patterns such as ``"blocks.*.linear1"``, and module types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugConfig:
    """The settings of a ``DebugSession``; ``preset`` gives three ready ones, of which "standard" is the default.

    The first eight fields are those of TrustformeRS Debug's ``DebugConfig``, with its names.

    Attributes:
        enable_tensor_inspection: Whether ``session.tensor_inspector`` takes tensors.
        enable_gradient_debugging: Whether gradients, and what depends on them, are measured and analysed.
        enable_model_diagnostics: Whether the session emits loss, learning rate, step time and the given metrics.
        enable_visualization: Whether histograms are emitted; without, there are scalars and findings only.
        max_tracked_tensors: Tensors that the inspector keeps; the oldest go first.
        max_gradient_history: Measured steps that trends and findings look back on.
        output_dir: A folder for ``report.json`` and ``report.txt`` when the session stops; None for none.
        sampling_rate: Share of the steps, and of the inspector's tensors, that is measured, above 0 and at most
            1: 0.1 is every tenth. It thins ``schedule`` only while that is left at every step.
        schedule: The steps to measure in full. Of all others the norm of all gradients is looked at.
        first_step: The number of the first step. None goes on after the last step of the session that was in the run,
            or in the scope of it, before, also in a run that is resumed; without one it is 0.
        histogram_every: A histogram is emitted for each so many measured steps, of all of them together.
        gradients: Whether gradients are measured.
        weights: Whether weights are, after each measured update.
        updates: Whether the changes of the weights are, with their ratio to the weights.
        optimizer_state: Whether the optimizer's moments are.
        activations: Whose outputs are measured: True for all leaf modules, or names, patterns and types.
        activation_gradients: Whether the gradients with respect to these outputs are, too.
        max_overhead: The share of the step time that may be spent, such as 0.05: steps that would cost more are
            left out and counted. 1 ms a step may be spent in any case, and the first 100 steps are always measured.
            None for no limit.
    """

    enable_tensor_inspection: bool = True
    enable_gradient_debugging: bool = True
    enable_model_diagnostics: bool = True
    enable_visualization: bool = True
    max_tracked_tensors: int = 1000
    max_gradient_history: int = 200
    output_dir: str | PathLike[str] | None = None
    sampling_rate: float = 1.0
    schedule: Schedule = field(default_factory=Schedule)
    histogram_every: int = 10
    gradients: bool = True
    weights: bool = False
    updates: bool = False
    optimizer_state: bool = False
    activations: ModuleSelection = False
    activation_gradients: bool = False
    max_overhead: float | None = 0.05
    first_step: int | None = None

    def __post_init__(self) -> None:
        for spec in fields(self):
            if spec.type == "bool" and not isinstance(getattr(self, spec.name), bool):
                raise ConfigError(f"{spec.name} is {getattr(self, spec.name)!r}; expected True or False")
        for name in ("max_tracked_tensors", "max_gradient_history", "histogram_every"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} is {value!r}; expected a whole number of at least 1")
        first = self.first_step
        if first is not None and (isinstance(first, bool) or not isinstance(first, int) or first < 0):
            raise ConfigError(f"first_step is {first!r}; expected a whole number of at least 0, or None")
        if self.output_dir is not None and not isinstance(self.output_dir, (str, PathLike)):
            raise ConfigError(f"output_dir is {self.output_dir!r}; expected a folder's path or None")
        if not isinstance(self.schedule, Schedule):
            raise ConfigError(f"schedule is {self.schedule!r}; expected a Schedule, such as Schedule(every=10)")
        if self.max_overhead is not None and not _is_share(self.max_overhead):
            raise ConfigError(f"max_overhead is {self.max_overhead!r}; expected a share above 0, such as 0.05, or None")
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
        known = {spec.name for spec in fields(cls)}
        if unknown := sorted(changes.keys() - known):
            raise ConfigError(_unknown(unknown, known))
        return cls(**{**_PRESETS[name], **changes})

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Returns a copy with changes; a new ``sampling_rate`` takes the place of the schedule that the old one made.

        Raises:
            ConfigError: For an unknown field or a wrong value.
        """
        known = {spec.name for spec in fields(self)}
        if unknown := sorted(changes.keys() - known):
            raise ConfigError(_unknown(unknown, known))
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


def as_config(given: DebugConfig | Preset | None, changes: Mapping[str, Any] | None = None) -> DebugConfig:
    """Returns a configuration, a preset by its name, or the default; with changes of its fields.

    Raises:
        ConfigError: For anything else.
    """
    changes = changes or {}
    if given is None:
        return DebugConfig().changed(changes)
    if isinstance(given, str):
        return DebugConfig.preset(given, **changes)
    if isinstance(given, DebugConfig):
        return given.changed(changes) if changes else given
    raise ConfigError(f"config is {given!r}; expected a DebugConfig or one of {', '.join(get_args(Preset))}")


def _unknown(unknown: Sequence[str], known: Iterable[str]) -> str:
    close = [match for name in unknown for match in get_close_matches(name, known, n=2, cutoff=0.5)]
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    fields_ = ", ".join(sorted(known))
    return f"DebugConfig has no {', '.join(unknown)}; {hint}expected some of {fields_}"


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _check_modules(selection: object) -> None:
    if isinstance(selection, bool):
        return
    if isinstance(selection, (list, tuple)) and all(isinstance(item, (str, type)) for item in selection):
        return
    raise ConfigError(f"activations is {selection!r}; expected True, False, or a list of names, patterns and types")
