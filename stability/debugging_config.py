"""What a debug session keeps and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from stability.config_checks import Checked, check_choice, check_positive, wrong
from stability.errors import StabilityConfigError

AnomalyMode: TypeAlias = Literal["detect", "raise"]
DebugLevel: TypeAlias = Literal["info", "warning", "error"]


@dataclass(frozen=True, kw_only=True)
class PyTorchDebuggingConfig(Checked):
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
        check_choice(self, "autograd_anomaly_mode", get_args(AnomalyMode))
        check_choice(self, "debug_level", get_args(DebugLevel))
        check_positive(self, "max_debug_iterations")
        check_positive(self, "debug_timeout")
        if not 0.0 < self.cuda_memory_fraction <= 1.0:
            raise wrong(self, "cuda_memory_fraction", "a number above 0 and at most 1")
        if not self.debug_file_prefix or "/" in self.debug_file_prefix or "\0" in self.debug_file_prefix:
            raise wrong(self, "debug_file_prefix", "the beginning of a file name, without a slash")
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
