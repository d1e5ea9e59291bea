"""Causes in which parameters take part: frozen, forgotten by the optimizer, cut off, or never changed."""

import re
from collections.abc import Sequence

from tracker_adapters.wording import some_of

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.initial_weights import fresh_weights
from debuggers.diagnosis.derived.roles import nothing_is_trained, share_of, with_role
from debuggers.diagnosis.derived.zero_gradients import FEWEST_SAMPLED, cut_by_zeros
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import LITTLE, progress_of

_BLOCK = re.compile(r"(.*\D)\.\d+\.(.*[^\d.].*\..+)")
"""Names of parameters of named layers in one of several blocks, such as ``blocks.2.backcast.weight``."""
COMPARED_AFTER = 25
"""Steps after which weights are compared with what they were; see ``debuggers.gradients.parameter_watch``."""
MOST = 0.9
"""Share of what a constant output leaves to learn, above which earlier positions are not missed."""
FEW_ROWS = 8
"""Rows of a table up to which it may tell apart what a training has one of."""
SMALL, PART = 0.05, 0.2
"""Shares of a model that may put out what nothing uses: the second, of the layers that are called last."""


def parameters_not_in_optimizer(evidence: Evidence) -> Argument:
    """Parameters get gradients and are in no group of the optimizer, and nothing else changes them either.

    Weights are compared after 25 steps, and again until the end: what is outside and has changed by then belongs to
    another optimizer, which may begin late.
    """
    argument = Argument("parameters_not_in_optimizer")
    names, found = with_role(evidence, "outside_optimizer"), evidence.found("outside_optimizer")
    trainable = [one.name for one in evidence.facts.parameters if one.role != "frozen"]
    if found or (names and evidence.facts.steps <= COMPARED_AFTER):
        since = found[0].step if found else None
        weight = CERTAIN if found else 0.6
        argument.add(
            weight,
            f"{some_of(names or [one.name for one in found], 3)}: in no group of the optimizer"
            + (", never changed" if found else ""),
            since=0 if since is not None else None,
            where=names,
        )
        if len(names) > 1 and names == trainable:
            argument.add(
                0.9,
                "the optimizer holds none of the model's parameters: it was made for a copy, for another model, or "
                "before these layers were",
            )
        without = with_role(evidence, "without_gradient")
        if without:
            argument.add(WEAK, f"the optimizer holds parameters without gradient ({some_of(without, 3)})")
    argument.advice = (
        "Make the optimizer after the model is complete, or optimizer.add_param_group({'params': new.parameters()})."
    )
    for invariant in evidence.facts.invariants:
        if invariant.name == "weights_are_registered" and invariant.broken >= max(3, 0.8 * invariant.checked):
            argument.add(
                0.85,
                f"the model multiplies with weights of shape {invariant.where} that get gradients, are none of "
                "model.parameters(), and never change",
                since=invariant.first_step,
            )
            argument.advice = "Keep layers in nn.ModuleList or nn.ModuleDict, and tensors in nn.Parameter."
        elif invariant.name == "layers_last" and invariant.broken >= max(3, 0.8 * invariant.checked):
            argument.add(
                0.85,
                f"the model multiplies with weights of shape {invariant.where} that are none of model.parameters() and "
                "new at each step: the layers that have them are made in forward",
                since=invariant.first_step,
            )
            argument.advice = "Make layers in __init__, and call them in forward."
    return argument


def detached_parameters(evidence: Evidence) -> Argument:
    """Parameters of layers that ran never got a gradient: something cuts the graph between them and the loss."""
    argument = Argument("detached_parameters")
    averages = {one.name for one in evidence.facts.parameters if one.moves}  # of trained ones, as a teacher's are
    names = [name for name in with_role(evidence, "without_gradient") if name not in averages]
    ran = evidence.of_tensors("output_std")
    if not names:
        _add_recurrence(argument, evidence)
        _add_cut_state(argument, evidence)
        _add_zeros(argument, evidence)
    if not names or nothing_is_trained(evidence, names):  # see no_update
        if names and ran and evidence.facts.trained_with_others:
            argument.add(
                STRONG,
                f"none of the model's parameters ever got a gradient, though its layers ran with gradients on in "
                f"{len(next(iter(ran.values())))} sampled steps, and another model's backward passes came",
                where=names[:5],
            )
            argument.advice = "Give the other model the outputs themselves, without .detach(), in this model's step."
        return argument
    unused = _of_last_blocks(evidence, names)
    root = evidence.facts.model  # its outputs are known by its class, if it has no other layers
    cut = [name for name in names if name not in unused and (not ran or (name.rpartition(".")[0] or root) in ran)]
    if cut:
        share = share_of(evidence, cut)
        comes_first = _come_first(evidence, cut)
        weight = (
            (0.6 if comes_first and share > SMALL else MODERATE) if not ran else CERTAIN if share > SMALL else STRONG
        )
        seen = "their layers run" if ran else "layers behind them do" if comes_first else "others do"
        argument.add(weight, f"{some_of(cut, 3)} require a gradient and never got one, though {seen}", where=cut)
        progress = progress_of(evidence)
        if progress is not None and progress.fell < 0.1 and not progress.failed and share > 0.1:
            argument.add(MODERATE, f"they are {share:.0%} of the model, and the loss fell by {progress.fell:.0%} only")
        elif (
            progress is not None
            and share <= (PART if _are_called_last(evidence, cut) else SMALL)
            and (progress.learnt > 0.5 or (progress.fell > LITTLE and not comes_first))
            and not (comes_first and _are_several_new(evidence, cut))
        ):
            argument.against(STRONG, f"they are {share:.0%} of the model, and nothing may use what they put out")
    elif len(fresh := _run_without(evidence, names)) > 1:
        argument.add(
            STRONG,
            f"{some_of(fresh, 3)} have the spread of PyTorch's default initialisation and belong to the optimizer, and "
            "their layers run in each step, always without gradients",
            where=fresh,
        )
    elif len(fresh := _new_in_front(evidence, names)) > 1:
        argument.add(
            0.6,
            f"{some_of(fresh, 3)} have the spread of PyTorch's default initialisation and never got a gradient: their "
            "layers did not run with gradients on, and what is trained behind them takes as many features as they have",
            where=fresh,
        )
    elif ran and (tables := _tables_beside(evidence, names)):
        argument.add(
            0.6,
            f"{some_of(tables, 3)} belongs to the optimizer and never got a gradient, nor was its layer called, beside "
            "a table with as many columns that is trained: what is read of it may be its .data",
            where=tables,
        )
    others = [name for name in names if name not in cut]
    if cut and len(others) > len(cut):
        argument.against(WEAK, f"{some_of(others, 3)} did not run at all: part of the model may be unused on purpose")
    argument.advice = (
        f"Look behind {cut[0] if cut else 'them'} for .detach(), .data, .item(), torch.no_grad() or a new tensor made "
        "from values."
    )
    return argument


def _add_cut_state(argument: Argument, evidence: Evidence) -> None:
    """Adds a state that a loop over positions detaches at each of them."""
    cut = next((one for one in evidence.facts.invariants if one.name == "states_pass_gradients" and one.broken), None)
    progress = progress_of(evidence)
    if cut is not None and cut.broken == cut.checked:
        argument.add(
            0.75,
            f"the state of {cut.where} is detached at each position of a sequence: no gradient goes further back",
            since=0,
            where=[cut.where],
        )
        argument.advice = "Pass the state on as it is, and detach it between two steps of the optimizer, if at all."
        if progress is not None and progress.learnt > MOST:
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")


def _add_zeros(argument: Argument, evidence: Evidence) -> None:
    """Adds weights whose gradients are exactly zero, though what they put out arrives at the layers behind."""
    cut = cut_by_zeros(evidence)
    if not cut or share_of(evidence, cut) <= SMALL:
        return
    argument.add(
        0.85,
        f"the gradients of {some_of(cut, 3)} are exactly zero at each sampled step, though what their layers put out "
        "varies and gradients arrive at the layer behind them: something between has no slope",
        since=0,
        where=cut,
    )
    argument.advice = (
        "Look behind them for sign, round, floor or a comparison, and pass gradients straight through: "
        "x + (torch.sign(x) - x).detach(); or for a hook that multiplies gradients by zero."
    )


def _add_recurrence(argument: Argument, evidence: Evidence) -> None:
    """Adds weights between the steps of a recurrence that never have a gradient, while those of its inputs have one.

    The first state is zero: a loss that reads the first step's output alone says nothing of them.
    """
    gradients, inputs = evidence.of_tensors("gradient_rms"), evidence.facts.inputs
    idle = [
        name
        for name, series in gradients.items()
        if ".weight_hh_l" in f".{name}" and len(series) >= FEWEST_SAMPLED and not series.values.any()
    ]
    fed = [name for name in idle if (other := gradients.get(name.replace("_hh_l", "_ih_l"))) and other.values.all()]
    if fed and inputs is not None and len(inputs.shape) > 1 and min(inputs.shape[:2]) > 1:
        argument.add(
            0.7,
            f"the gradient of {some_of(fed, 3)} is zero at each step, and those of the inputs' weights are not: only "
            "the first step of a sequence reaches the loss",
            where=fed,
        )
        argument.advice = "Read the output of the last step: outputs[:, -1] with batch_first, else outputs[-1]."


def _of_last_blocks(evidence: Evidence, names: Sequence[str]) -> set[str]:
    """Those of the last of several blocks, in all other ones of which the same parameters do have gradients.

    What a block passes on to the next one is computed by the last one, too, and used by nothing, as in N-BEATS
    (Oreshkin et al. 2020). A cut in the code of a block would leave all of them without gradients, or the first ones.
    """
    blocks: dict[str, list[str]] = {}
    for one in evidence.facts.parameters:
        if (found := _BLOCK.fullmatch(one.name)) is not None:
            blocks.setdefault(f"{found[1]}.{found[2]}", []).append(one.name)
    return {alike[-1] for alike in blocks.values() if len(alike) > 1 and set(alike) & set(names) == {alike[-1]}}


def _come_first(evidence: Evidence, names: Sequence[str]) -> bool:
    """Whether parameters are a model's first ones, and all behind them are trained.

    A cut leaves all before it without gradients; a head that nobody uses stands at the end.
    """
    roles = [one.role for one in evidence.facts.parameters if one.role != "frozen"]
    return set(roles[: len(names)]) == {"without_gradient"} and set(roles[len(names) :]) == {"trained"}


def _are_called_last(evidence: Evidence, names: Sequence[str]) -> bool:
    """Whether the layers of some parameters are called after those of all others: nothing is behind them."""
    order = evidence.facts.called or [layer.name for layer in evidence.facts.layers]
    places = {layer: place for place, layer in enumerate(order)}
    known = {one.name: places.get(one.name.rpartition(".")[0]) for one in evidence.facts.parameters}
    theirs = [place for name, place in known.items() if name in names and place is not None]
    others = [place for name, place in known.items() if name not in names and place is not None]
    return len(theirs) + len(others) == len(known) > 0 and min(theirs, default=0) > max(others, default=0)


def _are_several_new(evidence: Evidence, names: Sequence[str]) -> bool:
    """Whether parameters are of several weights that nothing trained, as of a net that another one reads.

    A single one may be a leftover, and what was trained before may run without gradients on purpose.
    """
    weights = {one.name for one in evidence.facts.parameters if one.name in names and len(one.shape) > 1}
    return len(weights) > 1 and weights <= set(fresh_weights(evidence, "without_gradient"))


def _run_without(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """Weights that nothing trained, and whose layers ran at the training's steps, but never with gradients.

    What an optimizer holds was to be trained. The target of a random network distillation is in none (Burda et al.
    2018).
    """
    layers = set(evidence.facts.without_gradients)
    fresh = [name for name in fresh_weights(evidence, "without_gradient") if name in names]
    return [name for name in fresh if name.rpartition(".")[0] in layers]


def _tables_beside(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """Tables of embeddings without gradients beside a trained one with as many columns, as of the two of a product.

    A table of a few rows may tell apart what a training has one of, such as the segments of a text.
    """
    kinds = {f"{layer.name}.weight" for layer in evidence.facts.layers if layer.kind.startswith("Embedding")}
    tables = [one for one in evidence.facts.parameters if one.name in kinds and len(one.shape) == 2]
    trained = {one.shape[1] for one in tables if one.role == "trained"}
    return [one.name for one in tables if one.name in names and one.shape[1] in trained and one.shape[0] >= FEW_ROWS]


def _new_in_front(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """Weights that nothing trained, are a model's first ones, and fit to the first trained weight; [] if none is such.

    A pretrained body may run without gradients on purpose. What is not used at all need not fit. Behind convolutions,
    each channel has as many features as places.
    """
    weights = [one for one in evidence.facts.parameters if one.role != "frozen" and len(one.shape) > 1]
    front = [one.name for one in weights if one.name in names]
    if not front or not _come_first(evidence, names) or front != fresh_weights(evidence, "without_gradient"):
        return []
    behind = weights[len(front) :]
    if not behind:
        return []
    puts_out, takes = weights[len(front) - 1].shape, behind[0].shape[1]
    return front if takes == puts_out[0] or (len(puts_out) > 2 and takes % puts_out[0] == 0) else []
