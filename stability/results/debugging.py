"""What the debugging tools of a session report: plain dicts of plain values, with these keys."""

from typing import Literal, NotRequired, TypeAlias, TypedDict

GradientMode: TypeAlias = Literal["reverse", "forward"]


class CpuMemory(TypedDict):
    """Memory of this process: ``rss`` and ``vms`` in MB of 2**20 bytes, ``percent`` of the machine's memory."""

    rss: float
    vms: float
    percent: float


class CudaMemory(TypedDict):
    """Memory of this process on CUDA devices, in MB of 2**20 bytes.

    ``allocated`` is what tensors take, ``cached`` what torch has reserved from the device, tensors included, and
    ``max_allocated`` the peak of ``allocated`` since the process began, or since the last reset.
    """

    allocated: float
    cached: float
    max_allocated: float


class MemoryInfo(TypedDict):
    """What the process uses. ``cuda_memory`` sums over the devices; it is there once the process uses CUDA."""

    cpu_memory: CpuMemory
    cuda_memory: NotRequired[CudaMemory]
    cuda_devices: NotRequired[dict[str, CudaMemory]]
    """One entry a device, such as ``cuda:1``, when the process uses more than one."""


class MemoryLeak(TypedDict):
    """A series that keeps growing; ``growth_mb`` is what it grew by from the first to the last of ``steps``."""

    series: str
    steps: tuple[int, int]
    growth_mb: float
    p_value: float


class ModuleMemory(TypedDict):
    """What a leaf module's forward adds and holds, in MB of 2**20 bytes."""

    module: str
    type: str
    calls: int
    forward_mb: float
    parameters_mb: float
    buffers_mb: float


class MemoryProfile(TypedDict):
    """What takes memory, in MB of 2**20 bytes; what several modules share counts once in the sums."""

    parameters_mb: float
    gradients_mb: float
    optimizer_state_mb: float
    buffers_mb: float
    modules: list[ModuleMemory]


class GradientCheckFailure(TypedDict):
    """A derivative that differs from its finite difference: the entry that differs most for an input and an output.

    ``input_index`` is where it stands in the input (a parameter is an input too). ``output_index`` counts the
    module's output elements, or sums of them with random weights where it has more than 16. The values are NaN when
    no entry differs: then ``message`` says what torch found.
    """

    input: str
    input_index: list[int]
    output: int
    output_index: int
    mode: GradientMode
    numerical: float
    analytical: float
    message: str


class GradientCheck(TypedDict):
    """A module's or function's gradients against finite differences.

    ``passed`` is None when it was skipped; then ``skipped`` says why. ``seconds`` is what it took.
    """

    module: str
    passed: bool | None
    skipped: str
    inputs: list[str]
    modes: list[GradientMode]
    evaluations: int
    seconds: float
    failures: list[GradientCheckFailure]


class GradientCheckSummary(TypedDict):
    """A session's gradient checks; ``skipped`` counts by reason, and the rest by module."""

    passed: dict[str, int]
    failed: dict[str, int]
    skipped: dict[str, int]
    failures: list[GradientCheckFailure]
    seconds: float


class StepTimes(TypedDict):
    """Seconds of wall time on the host from one ``step`` of the manager to the next.

    ``forward`` is spent inside the model, ``backward`` from its end to the manager's step (the loss and what else
    stands there included), ``stability`` inside that, ``optimizer`` inside the optimizer's step, and ``rest`` is what
    is left, such as loading data.
    """

    forward: float
    backward: float
    stability: float
    optimizer: float
    rest: float
    total: float


class OperatorTime(TypedDict):
    """An operator in the profile, such as ``aten::addmm``. Times are its own, in milliseconds; memory in MB."""

    operator: str
    calls: int
    cpu_ms: float
    cuda_ms: float
    memory_mb: float


class CudaInfo(TypedDict):
    """What CUDA debugging does; without CUDA ``note`` says so."""

    available: bool
    devices: list[str]
    synchronized: bool
    memory_fraction: float
    note: str
