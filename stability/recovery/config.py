"""Which remedies a fault sets off."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from msgspec import Meta
from tracker_adapters.values.checked_values import PositiveInteger

from stability.config_checks import Checked

_Factor: TypeAlias = Annotated[float, Meta(gt=0, lt=1, description="a number between 0 and 1")]


@dataclass(frozen=True, kw_only=True)
class RecoveryConfig(Checked):
    """Which remedies a faulty step sets off; all are off at first.

    One remedy is tried at a time, in the order of the fields. It stays when no fault comes for ``trial_steps`` steps;
    when one comes it is undone, and the next one is tried.

    Attributes:
        exclude_datapoints: Leaves the datapoints that trigger the fault out of what ``RecoverySampler`` yields. Needs
            a ``FirstNaNFinder`` that names them, with a ``steps_between`` that is small enough for the next fault.
        widen_operator: Lets the module of the named operator compute in float32 under autocast. Needs the same.
        reduce_loss_scale: Multiplies the GradScaler's scale by ``loss_scale_factor``, where only gradients are faulty.
        loss_scale_factor: Between 0 and 1; the default is a GradScaler's own ``backoff_factor``.
        lower_learning_rate: Multiplies the learning rate of every group by ``learning_rate_factor``. With
            ``handling_type="restore"`` the training also goes back to before the fault.
        learning_rate_factor: Between 0 and 1.
        relieve_memory: Gives up a step in ``Recovery.relieved`` that runs out of memory, and drops what it held.
        memory_attempts: After so many such steps in a row the exception is raised, positive.
        memory_snapshot_folder: Where a snapshot of CUDA's allocator is then written; "" for none.
        trial_steps: How many steps a remedy has to prove itself, positive.
    """

    exclude_datapoints: bool = False
    widen_operator: bool = False
    reduce_loss_scale: bool = False
    loss_scale_factor: _Factor = 0.5
    lower_learning_rate: bool = False
    learning_rate_factor: _Factor = 0.5
    relieve_memory: bool = False
    memory_attempts: PositiveInteger = 3
    memory_snapshot_folder: str = ""
    trial_steps: PositiveInteger = 100
