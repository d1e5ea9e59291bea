"""The part that each parameter takes in a training."""

from debuggers.gradients.parameter_watch import ParameterWatch
from debuggers.observed_training.invariants import InvariantLog

_SETTLED = 25
"""Steps after which a parameter without a gradient counts as one that gets none."""


def parameter_roles(watch: ParameterWatch, invariants: InvariantLog, steps: int, last_step: int) -> dict[str, str]:
    """Returns the role of each parameter that is not simply trained, and enters the invariants that are about roles.

    What neither has a gradient nor belongs to the optimizer is frozen, as a backbone under ``torch.no_grad`` below a
    head that is trained, also where it requires a gradient: unless none of the model's parameters has both. So is what
    belongs to a group of the optimizer whose rate is 0, and never changed, while others of that optimizer did.
    """
    found = watch.roles()
    kinds = {finding.kind for finding in watch.findings()}
    roles = dict.fromkeys(found.outside_optimizer, "outside_optimizer")
    if steps >= _SETTLED:
        held = [name for name in found.without_gradient if name not in roles]
        invariants.state("optimizer_gets_gradients", last_step, broken=bool(held), where=", ".join(held[:5]))
        where = ", ".join(found.outside_optimizer[:5])
        invariants.state("gradients_in_optimizer", last_step, broken="outside_optimizer" in kinds, where=where)
    roles |= dict.fromkeys(found.lost_gradient, "lost_gradient")
    roles |= dict.fromkeys(found.without_gradient, "without_gradient")
    roles |= dict.fromkeys(found.frozen, "frozen")
    if len(roles) < len(found.parameters):
        left_out = set(found.outside_optimizer) & set(found.without_gradient)
        roles |= dict.fromkeys(left_out, "frozen")
    if "weights_stand_still" in kinds:
        roles |= {name: "unchanged" for name in found.parameters if name not in roles}
    roles |= {name: "unchanged" for name in found.idle if name not in roles}
    roles |= {name: "frozen" for name in found.at_rate_zero if name not in roles}
    return roles
