"""The configurations: how gradients are clipped, what is done about NaN, what a debug session keeps."""

from __future__ import annotations

import dataclasses
import difflib
import math
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, get_args

from stability.errors import StabilityConfigError

ClippingType: TypeAlias = Literal["norm", "none"]
HandlingType: TypeAlias = Literal["detect"]
AnomalyMode: TypeAlias = Literal["detect", "raise"]
DebugLevel: TypeAlias = Literal["info", "warning", "error"]

_PLAIN_TYPES: dict[Any, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "True or False"),
    "int": ((int,), "an integer"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a str"),
}


class _Checked:
    """Names the known fields when an unknown one is given, and checks each field's type."""

    def __new__(cls, *_: object, **fields: object) -> Self:
        known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        for name in fields:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ";"
                raise TypeError(f"{cls.__name__} has no field {name!r}{hint} its fields are {', '.join(known)}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            types, expected = _PLAIN_TYPES.get(field.type, ((object,), ""))
            value = getattr(self, field.name)
            if not isinstance(value, types) or (isinstance(value, bool) and types not in ((bool,), (object,))):
                raise _wrong(self, field.name, expected)


@dataclass(frozen=True, kw_only=True)
class GradientClippingConfig(_Checked):
    """How gradients are clipped.

    Attributes:
        clipping_type: ``"norm"`` scales all gradients by one factor so that their total norm is at most
            ``max_norm``, exactly as ``torch.nn.utils.clip_grad_norm_`` does; ``"none"`` only measures.
        max_norm: The largest total norm, positive; infinity is allowed.
        norm_type: The order p of the norm, positive; infinity is the largest absolute value. With ``p <= 0`` a NaN
            would not show in the norm.
    """

    clipping_type: ClippingType = "norm"
    max_norm: float = 1.0
    norm_type: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice(self, "clipping_type", get_args(ClippingType))
        _check_positive(self, "max_norm")
        _check_positive(self, "norm_type")


@dataclass(frozen=True, kw_only=True)
class NaNHandlingConfig(_Checked):
    """What happens when a loss or gradient is not finite.

    Attributes:
        handling_type: ``"detect"`` names and counts, raises an alert, and changes nothing.
    """

    handling_type: HandlingType = "detect"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice(self, "handling_type", get_args(HandlingType))


@dataclass(frozen=True, kw_only=True)
class PyTorchDebuggingConfig(_Checked):
    """What a debug session keeps and writes.

    Switches whose feature is not available are refused when they are set; see ``UNAVAILABLE_SWITCHES``.

    Attributes:
        enable_autograd_anomaly: Not available.
        autograd_anomaly_mode: ``"detect"`` or ``"raise"``; used with ``enable_autograd_anomaly``.
        enable_grad_check: Not available.
        grad_check_numerical: Used with ``enable_grad_check``.
        grad_check_sparse_numerical: Used with ``enable_grad_check``.
        enable_memory_debugging: Puts ``memory_info`` into each step's ``debug_info``.
        memory_tracking: Also emits it as scalars; needs ``enable_memory_debugging``.
        memory_profiling: Not available.
        enable_cuda_debugging: Not available.
        cuda_synchronize: Not available.
        cuda_memory_fraction: From above 0 to 1; values below 1 are not available.
        enable_performance_debugging: Not available.
        profile_autograd: Not available.
        profile_memory: Not available.
        debug_level: The least severity of the anomalies that are logged.
        verbose_logging: Logs one line a step.
        max_debug_iterations: After so many steps a session collects no more, positive.
        debug_timeout: After so many seconds a session collects no more, positive.
        save_debug_info: Writes JSON files when a session stops.
        debug_output_dir: Their folder.
        debug_file_prefix: What their names begin with; a file name, no path.
    """

    enable_autograd_anomaly: bool = False
    autograd_anomaly_mode: AnomalyMode = "detect"
    enable_grad_check: bool = False
    grad_check_numerical: bool = True
    grad_check_sparse_numerical: bool = True
    enable_memory_debugging: bool = False
    memory_tracking: bool = False
    memory_profiling: bool = False
    enable_cuda_debugging: bool = False
    cuda_synchronize: bool = False
    cuda_memory_fraction: float = 1.0
    enable_performance_debugging: bool = False
    profile_autograd: bool = False
    profile_memory: bool = False
    debug_level: DebugLevel = "info"
    verbose_logging: bool = False
    max_debug_iterations: int = 1000
    debug_timeout: float = 300.0
    save_debug_info: bool = True
    debug_output_dir: str = "debug_output"
    debug_file_prefix: str = "pytorch_debug"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice(self, "autograd_anomaly_mode", get_args(AnomalyMode))
        _check_choice(self, "debug_level", get_args(DebugLevel))
        _check_positive(self, "max_debug_iterations")
        _check_positive(self, "debug_timeout")
        if not 0.0 < self.cuda_memory_fraction <= 1.0:
            raise _wrong(self, "cuda_memory_fraction", "a number above 0 and at most 1")
        if not self.debug_file_prefix or "/" in self.debug_file_prefix or "\0" in self.debug_file_prefix:
            raise _wrong(self, "debug_file_prefix", "the beginning of a file name, without a slash")
        for name, off in UNAVAILABLE_SWITCHES.items():
            if getattr(self, name) != off:
                raise StabilityConfigError(
                    f"PyTorchDebuggingConfig: {name} is {getattr(self, name)!r}, which is not available; "
                    f"leave it at {off!r}. Available: {', '.join(AVAILABLE_SWITCHES)}"
                )
        if self.memory_tracking and not self.enable_memory_debugging:
            raise StabilityConfigError(
                "PyTorchDebuggingConfig: memory_tracking is True and enable_memory_debugging is False; "
                "expected both to be True"
            )


UNAVAILABLE_SWITCHES: dict[str, bool | float] = {
    "enable_autograd_anomaly": False,
    "enable_grad_check": False,
    "memory_profiling": False,
    "enable_cuda_debugging": False,
    "cuda_synchronize": False,
    "cuda_memory_fraction": 1.0,
    "enable_performance_debugging": False,
    "profile_autograd": False,
    "profile_memory": False,
}
AVAILABLE_SWITCHES = ("enable_memory_debugging", "memory_tracking", "verbose_logging", "save_debug_info")


def _check_choice(config: object, name: str, allowed: tuple[str, ...]) -> None:
    if getattr(config, name) not in allowed:
        raise _wrong(config, name, " or ".join(repr(choice) for choice in allowed))


def _check_positive(config: object, name: str) -> None:
    value = getattr(config, name)
    if math.isnan(value) or value <= 0:
        raise _wrong(config, name, "a number above 0")


def _wrong(config: object, name: str, expected: str) -> StabilityConfigError:
    return StabilityConfigError(f"{type(config).__name__}: {name} is {getattr(config, name)!r}; expected {expected}")
