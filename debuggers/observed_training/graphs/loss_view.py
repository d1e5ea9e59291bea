"""What the graph of a loss shows before it is differentiated: what kind of loss it is, and its targets."""

import math
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from debuggers.diagnosis.facts import OF_ELEMENTS, OF_NUMBERS, LossFacts
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.observed_training.graphs import contrasts, lowered_scores, margins, policies
from debuggers.observed_training.graphs.activations import FURTHEST_ACTIVATION, back_to_activation, bounded_by
from debuggers.observed_training.graphs.compared_outputs import are_differences, are_distances, dropped_share
from debuggers.observed_training.graphs.cosines import bound_of_cosines
from debuggers.observed_training.graphs.dimensions import other_softmax_dim, shape_before_scattering, shape_by_classes
from debuggers.observed_training.graphs.loss_settings import (
    class_weights_of,
    has_weights,
    ignored_of,
    limit_of,
    positive_weight_of,
    temperature_of,
)
from debuggers.observed_training.graphs.loss_targets import difference_of, targets_of, unexpanded
from debuggers.observed_training.graphs.loss_term import Term
from debuggers.observed_training.graphs.loss_terms import MAX_NODES, LossTerms
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number
from debuggers.torch_internals.graph_nodes import (
    PASSING,
    is_leaf,
    operands,
    operator,
    shape_of,
    unexpanded_shape,
)


@dataclass(frozen=True, slots=True, eq=False)
class LossView:
    """What the graph of a loss shows. Use its tensors before the backward pass, and keep none of them.

    Attributes:
        facts: See there.
        targets: What the outputs are compared with, if the graph has it: class indices (of the shape of the outputs
            without the classes), probabilities, or values. None where the graph does not have it, as in
            ``(outputs - targets).square()``, or a hook has packed it.
        difference: Outputs minus targets, where the graph has that instead. Only with ``difference_sign`` 1; with -1
            it is targets minus outputs.
        difference_sign: 1, -1, or 0 without a difference.
        reaches_outputs: Whether a known output of the model is among what the loss is computed from without further
            parameters: not in a loss that goes through another model, as a GAN's generator's does.
        compares_outputs: Whether it is a known output of the model that is compared, and nothing computed from it.
        outputs: The values of that output, if they are held.
        order: Of a loss of pairs or ranks, the share that is in the order that the loss asks for, a 0-d tensor; None
            for others, and where it is not known. Of one that draws some pairs together and others apart, how often one
            of the first is before one of the others.
        gains: Of log-probabilities of drawn classes, what is known of the numbers that they are multiplied with; see
            ``policies``.
        tie: Of a loss with margins, what it is where all outputs are equal, a 0-d tensor; NaN or None if not known.
        is_only_comparison: Whether one of its terms alone is of a known kind, and the model has one output: what a
            critic's error is compared with is not known to belong to the first of several.
        left_out: Of one with targets of 1 and -1, the share of scores whose target is 0, and of one with pairs of two
            kinds, the share that belongs to none or both, 0-d; None if that is meant.
        meet_all: Of one that ``lowers`` a picked score, the share of rows where it meets all others, 0-d.
    """

    facts: LossFacts
    targets: torch.Tensor | None = None
    difference: torch.Tensor | None = None
    difference_sign: int = 0
    compares_outputs: bool = False
    outputs: torch.Tensor | None = None
    reaches_outputs: bool = False
    order: torch.Tensor | None = None
    tie: torch.Tensor | None = None
    left_out: torch.Tensor | None = None
    meet_all: torch.Tensor | None = None
    gains: policies.Gains | None = None
    is_only_comparison: bool = True


def output_nodes(outputs: list[torch.Tensor]) -> frozenset[int]:
    """Returns what ``loss_view`` wants to know of a model's outputs: numbers of nodes, which keep no graph alive.

    A scalar is left out: models that compute their loss themselves return it beside their outputs.
    """
    return frozenset(node_number(one.grad_fn) for one in outputs if one.grad_fn is not None and one.ndim)


def loss_view(
    loss: torch.Tensor, outputs: Collection[int] = frozenset(), values: Mapping[int, torch.Tensor] | None = None
) -> LossView:
    """Looks at the graph of a loss, before ``backward`` frees it.

    At most 64 nodes are looked at. No tensor is changed or kept, no hook of saved tensors is called, and nothing waits
    for a device: a factor that lies there counts as 1.

    Args:
        loss: With its graph; scaled by a GradScaler or not: the scale on the host is part of ``factor``.
        outputs: See ``output_nodes``. Without them, the walk may go on into the model.
        values: Outputs without their graph, by the numbers of their nodes, as far as they are known.
    """
    if loss.grad_fn is None:
        return LossView(LossFacts())
    found = LossTerms(loss.grad_fn, outputs)
    terms = found.terms
    known = [term for term in terms if term.kind]
    if not terms:
        return LossView(LossFacts(nodes=(loss.grad_fn.name(),), penalized=found.penalized))
    main = known[0] if known else terms[0]
    view = _view(main, outputs, values)
    view = replace(
        view, reaches_outputs=_reaches(loss.grad_fn, outputs), is_only_comparison=len(known) == 1 and len(outputs) == 1
    )
    if main.margin is not None and len(terms) == 1:
        with quiet_computation(loss.device.type):
            order, tie = margins.order_and_tie(main.margin, {} if values is None else values)
            if any(operator(node) == "Sum" for node in main.nodes):  # what is added up is no mean of all
                tie = None
            view = replace(view, order=order, tie=tie, left_out=margins.left_out(main.margin))
            lowered = lowered_scores.lowered_scores(main.margin, main.nodes, outputs)
        if lowered is not None:
            view = replace(view, facts=replace_facts(view.facts, lowers=lowered.below), meet_all=lowered.meet_all)
    elif main.contrast is not None and len(terms) == 1:
        with quiet_computation(loss.device.type):
            order = contrasts.order_of(main.contrast, {} if values is None else values)
            view = replace(view, order=order, left_out=contrasts.left_out(main.contrast))
    drawn = next((term for term in terms if term.is_drawn), None)
    if drawn is not None:
        view = replace(view, gains=policies.gains_of(drawn))
    facts = replace_facts(
        view.facts, terms=len(terms), penalized=found.penalized, lowers_drawn=drawn is not None and drawn.factor < 0
    )
    facts = replace_facts(facts, broadcast=facts.broadcast or any(_is_paired(term) for term in terms))
    kinds = {term.kind: term for term in reversed(known)}
    away = any(term.kind == "cosine" and term.factor < 0 for term in known)
    if len(kinds) > 1 or (away and len(terms) > 1):  # pushed from one and drawn to another
        # What a second head is compared with is not known to belong to the model's first output.
        parts = tuple(_view(term, outputs, values).facts for term in kinds.values())
        same = len({term.outputs for term in known}) == 1
        view = view if same else replace(view, targets=None, difference=None, difference_sign=0)
        facts = replace_facts(facts, kind="", negated=False, parts=parts)
    return replace(view, facts=facts)


def replace_facts(facts: LossFacts, **changes: Any) -> LossFacts:
    """Returns facts with some of them changed."""
    return LossFacts(**{name: getattr(facts, name) for name in facts.__struct_fields__} | changes)


def _view(term: Term, outputs: Container[int], values: Mapping[int, torch.Tensor] | None) -> LossView:
    below, before, compares_outputs = back_to_activation(term.outputs, outputs)
    between = _between(term.comparison, term.outputs)
    shown = term.outputs
    while shown is not None and operator(shown) == "Expand" and operands(shown):
        shown = operands(shown)[0]
    outputs_shape = () if shown is None else shape_of(shown)
    # Of classes that a softmax chooses from, one-hot targets are compared with what stands before it.
    targets = None if term.kind == "overlap" and before == "softmax" else targets_of(term)
    targets_shape = () if targets is None else unexpanded_shape(targets)
    expanded = shown is not term.outputs or (targets is not None and targets_shape != tuple(targets.shape))
    broadcast = expanded and term.kind not in ("nll", "cross_entropy")
    difference = None
    if term.difference_sign:
        broadcast = _is_spread(shown, term.shape, outputs)
        difference = difference_of(term)
    if _is_paired(term):
        broadcast, outputs_shape = True, term.paired
    reduction, factor = _mean_of_sum(term, outputs_shape)
    softmax_dim: int | None = None
    scattered: tuple[int, ...] = ()
    if term.kind in ("nll", "cross_entropy"):
        softmax_dim, scattered = other_softmax_dim(term.comparison), shape_before_scattering(term.comparison)
        if softmax_dim is None:
            outputs_shape = shape_by_classes(term.comparison, outputs_shape)
    ratio, follow = class_weights_of(term)
    squashing, times = bounded_by(term.outputs) if term.kind in OF_NUMBERS else ("", 0.0)
    facts = LossFacts(
        kind=term.kind,
        reduction=reduction or ("none" if term.kind else ""),
        nodes=tuple(node.name() for node in (*term.nodes, *between, *below))[:MAX_NODES],
        factor=factor,
        negated=bool(term.kind) and term.factor < 0 and not policies.push_both_ways(term),
        before=before,
        bounded_by=squashing,
        times=times,
        distances=term.kind == "cross_entropy" and are_distances(term.outputs),
        differences=term.kind in ("bce", "bce_with_logits") and are_differences(term.outputs),
        dropped=dropped_share(term.outputs),
        temperature=temperature_of(term) if term.kind == "kl_div" else 1.0,
        bound=bound_of_cosines(term.outputs) if term.kind == "cross_entropy" else 0.0,
        softmax_dim=softmax_dim,
        scattered=scattered,
        outputs_shape=outputs_shape,
        targets_shape=targets_shape,
        broadcast=broadcast,
        weighted=term.weighted or has_weights(term),
        positive_weight=positive_weight_of(term),
        class_weight_ratio=ratio,
        class_weights_follow=follow,
        limit=limit_of(term),
        levels=term.levels,
        ignored=ignored_of(term),
        smoothing=term.smoothing,
        confidence_penalty=term.confidence_penalty,
        weighs_the_sure=term.weighs_the_sure,
        one_sided=term.one_sided,
    )
    sign = term.difference_sign if difference is not None else 0
    if targets is not None and broadcast:
        targets = unexpanded(targets)
    held = values.get(node_number(below[-1])) if values and compares_outputs else None
    return LossView(facts, targets, difference, sign, compares_outputs, held)


def _is_spread(node: Any, shape: tuple[int, ...], outputs: Container[int]) -> bool:
    """Whether outputs were expanded in their difference to the targets, by no dimension that the loop added for it.

    Vectors may be compared in pairs on purpose, as in a Chamfer distance, and numbers with the middles of bins.
    """
    if shape_of(node) == shape:
        return False
    if operator(node) != "Unsqueeze" or node_number(node) in outputs:
        return True
    return len(shape) == 2 and shape[0] == shape[1]


def _is_paired(term: Term) -> bool:
    """Whether each element meets each of a constant; of classes, only where these are the losses of whole rows.

    Scores that are compared in pairs before a softmax may be meant so.
    """
    if term.kind in ("nll", "cross_entropy"):
        return len(term.paired) == 1 and operator(term.comparison).startswith("NllLoss")
    return bool(term.paired)


def _reaches(root: Any, outputs: Container[int]) -> bool:
    """Whether there is an output among the next nodes, without those behind an operator with a parameter."""
    waiting, seen = [root], {root}
    while waiting and len(seen) < 2 * MAX_NODES:
        node = waiting.pop(0)
        if node_number(node) in outputs:
            return True
        inner = operands(node)
        if any(is_leaf(one) or (operator(one) in PASSING and any(map(is_leaf, operands(one)))) for one in inner):
            continue
        new = [one for one in dict.fromkeys(inner) if one not in seen]
        seen.update(new)
        waiting += new
    return False


def _between(comparison: Any, outputs: Any) -> list[Any]:
    """Returns the nodes between the one that compares and what it compares, such as a log-softmax."""
    nodes: list[Any] = []
    node = comparison
    while node is not None and outputs is not None and len(nodes) < FURTHEST_ACTIVATION:
        inner = operands(node)
        node = inner[0] if len(inner) == 1 else None
        if node is outputs:
            return nodes
        nodes.append(node)
    return []


def _mean_of_sum(term: Term, outputs_shape: tuple[int, ...]) -> tuple[str, float]:
    """Takes a sum that is divided by the number of its summands, or of the batch's rows, for the mean that it is.

    Divided by the rows, a sum over all elements is their mean times the elements of a row. The summands of a cross
    entropy are rows.
    """
    factor = abs(term.factor)
    if term.reduction == "sum" and factor < 1:
        shape = term.shape or outputs_shape
        elements, rows = math.prod(shape), shape[0] if shape else 0
        for count in (elements, rows):
            if count > 1 and math.isclose(factor * count, 1.0, rel_tol=1e-6):
                return "mean", elements / count if term.kind in OF_ELEMENTS else 1.0
    return term.reduction, factor
