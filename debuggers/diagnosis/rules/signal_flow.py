"""Causes in how gradients pass through the layers: they vanish, or explode."""

import numpy as np
import numpy.typing as npt

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.first_gradients import LARGE, MULTIPLIED, multiplied_on_the_way
from debuggers.diagnosis.derived.initial_weights import RECURRENT, gains
from debuggers.diagnosis.derived.rates import is_searched
from debuggers.diagnosis.derived.relation import learnt_of_each
from debuggers.diagnosis.derived.updates import SMALL_RATIO, UNDER_WAY, travelled
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import LITTLE, Progress, progress_of
from debuggers.diagnosis.series import Series

DECAY = 1e-3
"""Ratio of the first layers' gradients to the last ones' below which they vanish (AutoTrainer)."""
ARRIVES = 0.1
"""The same from which gradients do arrive at the first layer, whatever those between get."""
BEGINNING = 5
"""Steps at which gradients may be large because nothing is learnt yet."""
FEWEST_NORMS = 30
"""Norms of which a median is what is usual."""
HIGH, HIGHEST, SEVERAL = 10.0, 15.0, 3
"""Times its median to which a recurrence's norm jumps, at how many steps, and at one of them: in the zoo's sound
trainings that have learnt little, it jumps at two steps at most."""
JUMP = 50.0
"""Times its median, or its first values, from which the norm of the gradients explodes at single steps."""
_FLOAT32 = float(np.finfo(np.float32).eps)
SAME = 1e-3
"""Share of their deviation up to which outputs are the same for all rows of a batch."""
TINY_WEIGHT = 0.01
"""Share of another weight's size from which one is far smaller."""
SMALL_SCALE = 1e-3
"""Size of a scale below which what it multiplies hardly counts at first, as in LayerScale (Touvron et al. 2021)."""
TINY = 1e-4
"""Root mean square of a gradient below which the ratio counts."""


def _matrices(evidence: Evidence, signal: str) -> dict[str, Series]:
    """The series of weights with at least two dimensions: biases and scales have gradients of another size.

    Tables of embeddings are left out: a batch reads few of their rows, and the others have no gradient. So are weights
    beside a scale that begins as a small number, as LayerScale: their gradients are as small as it. The series come
    in the order in which their layers are called, where all of them are known: a head may be made before the layers
    that it stands behind.
    """
    shapes = {one.name: one.shape for one in evidence.facts.parameters}
    scaled = tuple(
        f"{one.name.rpartition('.')[0]}."
        for one in evidence.facts.parameters
        if len(one.shape) == 1 and "." in one.name and not one.std and 0 < abs(one.mean) < SMALL_SCALE
    )
    tables = {f"{layer.name}.weight" for layer in evidence.facts.layers if layer.kind.startswith("Embedding")}
    found = {
        name: series
        for name, series in evidence.of_tensors(signal).items()
        if len(series) and len(shapes.get(name, (1, 1))) >= 2 and name not in tables
        if not f"{name.rpartition('.')[0]}.".startswith(scaled)
    }
    places = {layer: place for place, layer in enumerate(evidence.facts.called)}
    layers = {name: name.rpartition(".")[0] for name in found}
    if not all(layer in places for layer in layers.values()):
        return found
    return dict(sorted(found.items(), key=lambda item: places[layers[item[0]]]))


def vanishing_gradients(evidence: Evidence) -> Argument:
    """Gradients of the first layers are less than a thousandth of the last ones' and tiny, and fall with depth."""
    argument = Argument("vanishing_gradients")
    sizes = {name: series.finite.late().median() for name, series in _matrices(evidence, "gradient_rms").items()}
    early = {name: series.first for name, series in _matrices(evidence, "gradient_rms").items()}
    for values, when in ((early, "at first"), (sizes, "later")):
        known = [(name, value) for name, value in values.items() if np.isfinite(value)]
        if len(known) < 3 or known[-1][1] <= 0:
            continue
        name, first = known[0]
        ratio = first / max(value for _, value in known[-2:])
        falls = np.mean(np.diff([np.log(max(value, 1e-45)) for _, value in known]) > 0)
        if 0 < ratio < DECAY and first < TINY and falls > 0.6:
            argument.add(
                STRONG if when == "at first" else MODERATE,
                f"{when} the gradient of {name} is {ratio:.1g} times that of "
                f"{known[-1][0]}, and falls from layer to layer",
                since=int(evidence.of_tensors("gradient_rms")[name].steps[0]) if when == "at first" else None,
                where=[name],
            )
    if found := evidence.found("vanishing_gradient") or evidence.found("vanishing_by_depth"):
        argument.add(MODERATE, found[0].message, since=found[0].step, where=[one.name for one in found[:3]])
    forgets = _add_forgetting(argument, evidence)
    known = [(name, value) for name, value in sizes.items() if np.isfinite(value)]
    if (
        argument.cause is not None
        and not forgets
        and len(known) >= 3
        and known[0][1] > ARRIVES * max(known[-1][1], known[-2][1]) > 0
    ):
        argument.against(STRONG, f"the gradient of {known[0][0]} is as large as those of the last layers")
    progress = progress_of(evidence)
    if argument.cause is not None and progress is not None:
        was_tried = evidence["update_ratio"].finite.median(1.0) >= SMALL_RATIO  # else see learning_rate_too_low
        learnt = learnt_of_each(evidence, progress)
        if learnt < 0.2 and not progress.failed and was_tried:
            little = "the loss fell by" if learnt == progress.learnt else "outputs explain of their targets"
            argument.add(
                MODERATE, f"{little} {progress.fell if learnt == progress.learnt else max(0.0, learnt):.0%} only"
            )
        elif learnt > 0.6:
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
    flat = [layer for layer in evidence.facts.layers if layer.kind in ("Sigmoid", "Tanh", "Softsign", "LogSigmoid")]
    if argument.cause is not None and len(flat) >= 4:
        argument.add(WEAK, f"{len(flat)} layers of {flat[0].kind} in a row shrink gradients")
    argument.advice = (
        "Use ReLU-like activations with He initialisation, normalisation layers, or residual connections; for "
        "recurrent networks LSTM or GRU."
    )
    if argument.cause is not None and (name := _normalises_one_feature(evidence, sizes)):
        argument.add(
            0.0, f"{name} normalises over a single feature: the size of what enters it is lost, and gradients end there"
        )
        argument.advice = (
            f"Take {name} out, or normalise over more than one feature: of a single one it loses the size, and no "
            "gradient passes."
        )
    return argument


def _normalises_one_feature(evidence: Evidence, sizes: dict[str, float]) -> str:
    """The layer that normalises each value by itself, where gradients end at it; "" where there is none.

    ``sizes`` are the gradients of matrices by their names. Those of all that are called before it are tiny beside
    what those behind it get.
    """
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    places = {layer: place for place, layer in enumerate(evidence.facts.called or tuple(kinds))}
    layers = {name: name.rpartition(".")[0] for name in sizes}
    known = [(places[layers[name]], size) for name, size in sizes.items() if layers[name] in places and size >= 0]
    for one in evidence.facts.parameters:
        name, _, last = one.name.rpartition(".")
        if (
            last == "weight"
            and kinds.get(name) in ("LayerNorm", "RMSNorm")
            and set(one.shape) == {1}
            and name in places
        ):
            before = [size for place, size in known if place < places[name]]
            behind = [size for place, size in known if place > places[name]]
            if before and behind and max(before) < DECAY * max(behind):
                return name
    return ""


def _add_forgetting(argument: Argument, evidence: Evidence) -> bool:
    """A plain recurrence that keeps nothing of its first inputs, where nothing is learnt; returns whether there is one.

    A state is multiplied with one matrix at each position. The largest eigenvalue of one with independent elements is
    about their deviation times the square root of its size (Ginibre 1965), and tanh does not make it larger: what is
    left of the first input falls with its powers (Bengio et al. 1994), down to below what float32 can tell apart.
    """
    facts, progress = evidence.facts, progress_of(evidence)
    shape = facts.inputs.shape if facts.inputs is not None else ()
    if progress is None or progress.failed or progress.learnt > 0.05 or len(shape) < 2 or facts.targets is None:
        return False
    # The first dimension is the batch's, or the second one.
    length = shape[0] if facts.targets.shape[:1] == shape[1:2] != shape[:1] else shape[1]
    plain = tuple(layer.name for layer in facts.layers if layer.kind == "RNN")
    known = {name: value for name, value in gains(facts).items() if ".weight_hh_l" in f".{name}"}
    lost = {name: value for name, value in known.items() if name.startswith(plain) and value**length < _FLOAT32}
    spread, deviation = (evidence[f"outputs/{name}"].finite.median() for name in ("batch_std", "std"))
    was_tried = travelled(evidence) > UNDER_WAY or spread < SAME * deviation
    forgets = bool(plain) and bool(known) and len(lost) == len(known) and was_tried
    if forgets:
        name = next(iter(lost))
        argument.add(
            0.6,
            f"{name} has a largest eigenvalue of about {lost[name]:.2g} at first: over {length} positions it leaves "
            f"{lost[name] ** length:.1g} of the first input",
            since=0,
            where=list(lost),
        )
    return forgets


def _unit(evidence: Evidence) -> float:
    """The root of the first loss where it is of squared errors, which their gradients grow with; else 1."""
    loss, first = evidence.facts.loss, evidence["loss"].finite.first
    squares = loss is None or loss.kind not in ("cross_entropy", "nll", "bce", "bce_with_logits", "l1")
    return max(1.0, abs(first) ** 0.5) if squares and np.isfinite(first) else 1.0


def _is_tiny(evidence: Evidence, name: str, other: str) -> bool:
    """Whether a weight is far smaller than another, as embeddings before a norm: gradients are larger by as much."""
    sizes = {one.name: one.std for one in evidence.facts.parameters}
    return 0 < sizes.get(name, 0.0) < TINY_WEIGHT * sizes.get(other, 0.0)


def _start(norms: npt.NDArray[np.float64]) -> float:
    return float(np.median(norms[:5]))


def _jumps(norms: Series) -> tuple[int, str] | None:
    """The first step of several at which the norm jumps after the first updates, as at the cliffs of a recurrence.

    Where a state is multiplied with the same matrix at each position, the loss has walls from which a step throws the
    weights far away (Pascanu et al. 2013).
    """
    later = norms.values[BEGINNING:]
    if len(later) < FEWEST_NORMS:
        return None
    middle = float(np.median(later))
    high = np.flatnonzero(later > HIGH * middle)
    if len(high) < SEVERAL or not 0 < HIGHEST * middle < float(later.max()):
        return None
    step = int(norms.steps[BEGINNING + high[0]])
    return step, (
        f"the gradients' norm jumps at {len(high)} steps to more than {HIGH:.0f} times its median, {middle:.2g}, and "
        f"to {later.max():.3g} once"
    )


def _add_growth_at_first(argument: Argument, evidence: Evidence) -> bool:
    """Gradients that grow on the way back before any update; returns whether usual weights do not explain that."""
    known = [(name, series.first) for name, series in _matrices(evidence, "gradient_rms").items()]
    known = [(name, value) for name, value in known if np.isfinite(value) and value > 0]
    if len(known) >= 3:
        ratio = known[0][1] / known[-1][1]
        if ratio > MULTIPLIED and not _is_tiny(evidence, known[0][0], known[-1][0]):
            argument.add(
                MODERATE,
                f"the gradient of {known[0][0]} is {ratio:,.0f} times that of {known[-1][0]} at first",
                since=0,
                where=[known[0][0]],
            )
    if (grown := multiplied_on_the_way(evidence)) is None:
        return False
    name, times, last = grown
    argument.add(
        STRONG,
        f"before any update the gradient of {name} is {times:,.0f} times that of {last}, and weights start at a usual "
        "scale: what is repeated or added up between them multiplies gradients",
        since=0,
        where=[name],
    )
    return True


def _course_of_a_failure(progress: Progress) -> str:
    """What a loss does that ends far above its first value, or as NaN; it may be NaN without having risen before."""
    first, highest, since = f"{progress.first:.3g}", f"{progress.highest:.3g}", progress.became_non_finite
    if since is None:
        return f"goes from {first} to {highest}"
    rises = (
        f"goes from {first} to {highest}"
        if progress.highest > progress.first and highest != first
        else f"is {first} at first"
    )
    return f"{rises} and becomes NaN or infinite at step {since}"


def exploding_gradients(evidence: Evidence) -> Argument:
    """Gradients grow from the last layer to the first, or jump by orders of magnitude at single steps.

    Where a rate is searched for, they do so at its end.
    """
    argument = Argument("exploding_gradients")
    if is_searched(evidence):
        return argument
    grows = _add_growth_at_first(argument, evidence)
    norms, progress = evidence["total_norm/gradients"].finite, progress_of(evidence)
    goes_well = progress is not None and progress.learnt > 0.3
    losses = evidence["loss"]
    began = not len(losses) or bool(np.isfinite(losses.values[0]))  # what is NaN before any update is no consequence
    if began and progress is not None and progress.failed and len(norms) and norms.first > LARGE * _unit(evidence):
        argument.add(
            0.6,
            f"the gradients' norm is {norms.first:.3g} at the first step, before any update, and the loss "
            f"{_course_of_a_failure(progress)}",
            since=int(norms.steps[0]),
        )
    elif len(norms) >= 5:
        largest, middle, start = (float(f(norms.values)) for f in (np.max, np.median, _start))
        step = int(norms.steps[norms.values.argmax()])
        usual = max(middle, start) if goes_well else middle  # many a sound training begins with large gradients
        jumps = not goes_well or int(norms.values.argmax()) > 0
        if jumps and largest > 1e3 and largest > JUMP * usual:
            argument.add(
                MODERATE, f"the norm jumps to {largest:.2g} at step {step}, the median is {middle:.2g}", since=step
            )
        elif progress is not None and progress.learnt < 0.1 and largest > JUMP * max(start, 1e-12):
            argument.add(MODERATE, f"the norm grows from {start:.2g} at first to {largest:.2g} at step {step}")
        elif start > LARGE and not goes_well:
            since = int(norms.steps[(norms.values > LARGE).argmax()])  # after a first update, it may be its consequence
            argument.add(MODERATE, f"the gradients' norm is {start:.2g} from step {since} on", since=since)
    if found := evidence.found("exploding_gradient"):
        argument.add(MODERATE, found[0].message, since=found[0].step, where=[one.name for one in found[:3]])
    recurrent = [layer for layer in evidence.facts.layers if layer.kind in RECURRENT]
    is_unclipped = bool(recurrent) and not evidence.facts.clips
    # Of a loss of both signs, as a policy's, nobody knows how much was learnt.
    has_learnt_little = progress is not None and progress.lowest >= 0 and progress.learnt < LITTLE
    if is_unclipped and has_learnt_little and (spikes := _jumps(norms)) is not None:
        argument.add(MODERATE, spikes[1], since=spikes[0])
    if argument.cause is not None and is_unclipped and not goes_well:
        argument.add(
            MODERATE, f"{recurrent[0].name or 'the model'} is recurrent ({recurrent[0].kind}), and nothing clips"
        )
    if argument.cause is not None and progress is not None and progress.learnt > 0.6:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
    typical = min(norms.median(1.0), _start(norms.values) if len(norms) else 1.0)
    limit = 2 * typical if 0 < typical < LARGE else 1.0  # norms that exploded at once say nothing of a usual one
    argument.advice = (
        f"Clip: torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={limit:.2g}), before optimizer.step()."
        if not grows
        else "Divide what repeated steps add by their number, take means where neighbours are summed, or normalise in "
        "between."
    )
    return argument
