"""Which debugging tools a session runs, what it keeps and what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta
from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.values.checked_values import PositiveInteger, PositiveNumber

from stability.config_checks import Checked, UpToOne
from stability.errors import StabilityConfigError

AnomalyMode: TypeAlias = Literal["detect", "raise"]
_Wait: TypeAlias = Annotated[int, Meta(ge=0, description="a number of steps, 0 or more")]
Preset: TypeAlias = Literal["development", "testing", "production", "debugging"]


@dataclass(frozen=True, kw_only=True)
class PyTorchDebuggingConfig(Checked):
    """Which of torch's debugging tools a session runs, what it keeps and what it writes.

    A switch that belongs to a tool needs the tool: ``memory_tracking`` needs ``enable_memory_debugging``, and so on.

    Attributes:
        enable_autograd_anomaly: Keeps the forward tracebacks of all operations, for a message on the ones whose
            gradient is not finite.
        autograd_anomaly_mode: ``"detect"`` logs and never stops the run; ``"raise"`` lets torch raise in ``backward``
            at the first NaN, and ``step`` raise ``AutogradAnomalyError`` on what else is not finite.
        enable_grad_check: Compares the gradients of one leaf module at a time with finite differences, in float64.
        grad_check_numerical: Checks modules with dense gradients.
        grad_check_sparse_numerical: Checks modules with sparse gradients or inputs.
        enable_memory_debugging: Puts ``memory_info`` into each step's ``debug_info``, and looks for leaks.
        memory_tracking: Also emits it as scalars.
        memory_profiling: Also says what each leaf module's forward adds, and what parameters, gradients, optimizer
            state and buffers take.
        enable_cuda_debugging: Watches the CUDA devices of the model; without CUDA there is a note, and no failure.
        cuda_synchronize: Waits for the devices at each step, so that a CUDA error shows in the step that made it.
        cuda_memory_fraction: The share of a device's memory that this process may take, from above 0 to 1; as it was
            when the session stops.
        enable_performance_debugging: Splits each step's time into forward, backward, optimizer and the rest.
        profile_autograd: Also runs ``torch.profiler`` over a few steps: a trace file, and a table of the operators.
        profile_memory: The same, with the memory that each operator allocates.
        debug_level: The least severity of what is logged.
        verbose_logging: Logs one line a step, whatever the ``debug_level``.
        max_debug_iterations: After so many steps a session collects no more and switches its tools off, positive. It
            says so once, and ``"raise"`` goes on to raise in ``step``.
        debug_timeout: Likewise after so many seconds, positive; looked at once a step.
        save_debug_info: Writes JSON files when a session stops, and the trace file.
        debug_output_dir: Their folder. One that cannot be written to is logged once; the run goes on.
        debug_file_prefix: What their names begin with; a file name, no path.
        max_debug_files: How many files of each kind stay in the folder; the oldest ones go.
        max_debug_file_mb: What is larger is cut into several files, in MB of 2**20 bytes.
        grad_check_every: So many steps lie between two gradient checks.
        grad_check_budget_s: What one gradient check may take, in seconds.
        grad_check_forward_mode: Also checks derivatives in forward mode, where a module has them.
        memory_leak_mb: The least growth that counts as a leak, in MB of 2**20 bytes.
        memory_profile_every: So many steps lie between two memory profiles.
        profile_wait: Steps before the profiler starts.
        profile_warmup: Steps that it then runs without keeping anything.
        profile_active: Steps that it then keeps.
        profile_repeat: How often this is done, with ``profile_wait`` steps between.
        check_max_share: The share of the run's time, from above 0 to 1, that gradient checks may take, and memory
            profiles too. They come as often as it allows, whatever the steps between them; None for these steps.
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
    cuda_memory_fraction: UpToOne = 1.0
    enable_performance_debugging: bool = False
    profile_autograd: bool = False
    profile_memory: bool = False
    debug_level: AlertLevel = "info"
    verbose_logging: bool = False
    max_debug_iterations: PositiveInteger = 1000
    debug_timeout: PositiveNumber = 300.0
    save_debug_info: bool = True
    debug_output_dir: Annotated[str, Meta(pattern=r"^[^\0]*\Z", description="the path of a folder")] = "debug_output"
    debug_file_prefix: Annotated[
        str, Meta(pattern=r"^[^/\0]+\Z", description="the beginning of a file name, without a slash")
    ] = "pytorch_debug"
    max_debug_files: PositiveInteger = 20
    max_debug_file_mb: PositiveNumber = 64.0
    grad_check_every: PositiveInteger = 20
    grad_check_budget_s: PositiveNumber = 1.0
    grad_check_forward_mode: bool = False
    memory_leak_mb: PositiveNumber = 32.0
    memory_profile_every: PositiveInteger = 100
    profile_wait: _Wait = 5
    profile_warmup: _Wait = 1
    profile_active: PositiveInteger = 3
    profile_repeat: PositiveInteger = 1
    check_max_share: UpToOne | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, (off, tool) in TOOLS_OF_SWITCHES.items():
            if getattr(self, name) != off and not getattr(self, tool):
                raise StabilityConfigError(
                    f"PyTorchDebuggingConfig: {name} is {getattr(self, name)!r} and {tool} is False; "
                    f"expected {tool}=True with it"
                )
        if self.enable_grad_check and not (self.grad_check_numerical or self.grad_check_sparse_numerical):
            raise StabilityConfigError(
                "PyTorchDebuggingConfig: enable_grad_check is True, grad_check_numerical and "
                "grad_check_sparse_numerical are False; expected at least one of the two to be True"
            )

    @classmethod
    def preset(cls, name: Preset, **fields: Any) -> PyTorchDebuggingConfig:
        """Returns the configuration for a use case; see ``PRESETS``. ``fields`` are set beside or over it.

        Raises:
            StabilityConfigError: For an unknown name; the message lists the known ones.
        """
        if name not in PRESETS:
            known = ", ".join(map(repr, PRESETS))
            raise StabilityConfigError(f"PyTorchDebuggingConfig: no preset {name!r}; expected one of {known}")
        return cls(**{**PRESETS[name], **fields})


TOOLS_OF_SWITCHES: dict[str, tuple[bool | float, str]] = {
    "memory_tracking": (False, "enable_memory_debugging"),
    "memory_profiling": (False, "enable_memory_debugging"),
    "cuda_synchronize": (False, "enable_cuda_debugging"),
    "cuda_memory_fraction": (1.0, "enable_cuda_debugging"),
    "profile_autograd": (False, "enable_performance_debugging"),
    "profile_memory": (False, "enable_performance_debugging"),
    "grad_check_forward_mode": (False, "enable_grad_check"),
}
PRESETS: dict[Preset, dict[str, bool]] = {
    "development": {"enable_autograd_anomaly": True, "enable_grad_check": True, "enable_memory_debugging": True},
    "testing": {"enable_autograd_anomaly": True, "enable_grad_check": False, "enable_memory_debugging": True},
    "production": {"enable_autograd_anomaly": False, "enable_grad_check": False, "enable_memory_debugging": False},
    "debugging": {"enable_autograd_anomaly": True, "enable_grad_check": True, "enable_memory_debugging": True},
}
"""The use cases and what they switch on."""
