"""The weights that a training began with: of what scale, as PyTorch's layers make them or not, and what enters them."""

import re

import numpy as np

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import MOST_ROWS, Facts, ParameterFacts

USUAL_GAINS = (0.05, 5.0)
"""Standard deviation of the first weights times √fan_in: initialisations aim at 0.6 to 1.4, and more is left open."""
RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4, "RNNCell": 1, "GRUCell": 3, "LSTMCell": 4}
"""Recurrent layers, with the number of gates whose weights stand one below the other."""
WITHIN = 3.0
"""Standard errors that a sample's mean and deviation are from those that it was drawn with, at most."""
SAMPLED = 512
"""Elements of a weight, about, of which its mean and deviation are known."""
_OF_TORCH = (0.95, 1.5)
"""Standard deviation of an embedding that PyTorch has drawn, after a training of any length."""
_SCHEMES = ("torch", "xavier", "normal")
_CLOSENESS = {"torch": 0.25, "xavier": 0.1}
"""Shares by which a weight's spread may differ from that of an initialisation where its sample is not asked for."""
_OF_UNIT_LENGTH = 0.02
"""Share by which the deviation of vectors of length 1 and mean 0 differs from one over the root of their width."""
_OF_NORMAL, _OF_UNIFORM = 0.5, 0.2
"""Variance of the deviation of n values, times n and over its square: a quarter of their kurtosis less one."""
_WITH_WEIGHTS = ("Linear", "Conv", "Bilinear", *RECURRENT)
"""How the names of classes begin that multiply what enters with their parameters of several dimensions."""
_ADAPTER = re.compile(r"(?i)lora|adapter")
"""Parts of names of what is trained beside a frozen weight."""
_A_WEIGHT = re.compile(r"(?i)weight|kernel|(^|\.)w\d*$")
"""Names of parameters that others than these multiply with."""

_OF_ATTENTION = re.compile(r"(?i)(^|[._])(w_?)?(q|k|v|query|key|value|queries|keys|values)(_?proj)?$")
"""Names of matrices that make queries, keys and values; as many rows as columns tell them from queries themselves."""


def fan_in(shape: tuple[int, ...], kind: str) -> float:
    """How many inputs a unit of a weight has; the Conv1D of Transformers keeps its weight transposed."""
    return float(shape[0] if kind == "Conv1D" else np.prod(shape[1:]))


def is_set(parameter: ParameterFacts) -> bool:
    """Whether a parameter was anything but zero at first."""
    return parameter.std + abs(parameter.mean) > 0


def gains(facts: Facts) -> dict[str, float]:
    """The standard deviation of each weight times √fan_in, at first.

    Only weights that are multiplied with a layer's input have a fan: an embedding, a position, a token, a picture that
    is trained itself, or the logarithms of deviations have none. A weight is known by its layer, or by its name.
    """
    kinds = {layer.name: layer.kind for layer in facts.layers}
    of = {one.name: kinds.get(one.name.rpartition(".")[0], "") for one in facts.parameters}
    return {
        one.name: one.std * float(np.sqrt(fan_in(one.shape, of[one.name])))
        for one in facts.parameters
        if len(one.shape) >= 2
        and one.std > 0
        and one.role != "frozen"
        and (_has_fan(one, of[one.name], is_alone=not kinds) or _makes_queries(one))
    }


def _has_fan(one: ParameterFacts, kind: str, *, is_alone: bool) -> bool:
    """Whether inputs are multiplied with a parameter of a layer of a kind; ``is_alone`` where no layer is known."""
    named = kind.startswith(_WITH_WEIGHTS) or _A_WEIGHT.search(one.name) is not None
    return named and "emb" not in one.name.lower() and (is_alone or bool(kind and "Embedding" not in kind))


def _makes_queries(one: ParameterFacts) -> bool:
    """Whether a parameter that is of no known layer is a matrix that makes queries, keys or values, by its name."""
    is_square = len(one.shape) == 2 and one.shape[0] == one.shape[1]
    return is_square and _OF_ATTENTION.search(one.name) is not None


def entering_first_layer(evidence: Evidence) -> tuple[str, float] | None:
    """The first layer with an output, and the size of what enters it; None where its weights have no usual scale.

    A layer whose weights have the gain g puts out g times the root mean square of what enters it, beside its biases.
    An embedding that stands before a wider layer, as of a time or a class, is read beside its inputs.
    """
    facts, outputs = evidence.facts, evidence.of_tensors("output_std")
    places = {name: place for place, name in enumerate(facts.called)}
    called = sorted((one for one in facts.layers if one.name in outputs), key=lambda one: places.get(one.name, 0))
    if len(called) > 1 and called[0].kind.startswith("Embedding") and _is_wider(facts, called[1].name, called[0].name):
        called = called[1:]
    first = called[0].name if called else ""
    gain = gains(facts).get(f"{first}.weight", 0.0)
    if not USUAL_GAINS[0] < gain < USUAL_GAINS[1] or not len(series := outputs[first].finite):
        return None
    spread = next((one.std for one in facts.parameters if one.name == f"{first}.bias"), 0.0)
    return first, float(np.sqrt(max(0.0, series.first**2 - spread**2))) / gain


def scaling_layer(evidence: Evidence) -> tuple[str, float] | None:
    """The first layer with weights, if they are frozen, and the size of what it puts out; None of others.

    So does a model subtract a mean and divide by a spread that were known before, as by a convolution with a kernel of
    one (``MeanShift``; Lim et al. 2017).
    """
    facts = evidence.facts
    roles: dict[str, set[str]] = {}
    for one in facts.parameters:
        roles.setdefault(one.name.rpartition(".")[0], set()).add(one.role)
    called = facts.called or [layer.name for layer in facts.layers]
    first = next((name for name in called if name in roles), None)
    means, deviations = evidence.of_tensors("output_mean"), evidence.of_tensors("output_std")
    if first is None or roles[first] != {"frozen"} or first not in means or first not in deviations:
        return None
    return first, float(np.hypot(means[first].finite.median(np.inf), deviations[first].finite.median(np.inf)))


def _is_wider(facts: Facts, layer: str, table: str) -> bool:
    """Whether a linear layer has more inputs than an embedding has columns."""
    shapes = {one.name: one.shape for one in facts.parameters}
    of_layer, of_table = shapes.get(f"{layer}.weight", ()), shapes.get(f"{table}.weight", ())
    return len(of_layer) == len(of_table) == 2 and of_layer[1] > of_table[1]


def fresh_weights(evidence: Evidence, role: str) -> list[str]:
    """Weights of a role with the spread that PyTorch's layers start with, as far as that can be told.

    Linear layers and convolutions start with kaiming_uniform_(a=√5), recurrent ones with a uniform distribution up to
    one over the root of their hidden size, embeddings with the standard normal one. The weights of attention, and in
    ``torch.nn.Transformer`` all of them, start with xavier_uniform_. None are where normalisations of the same role
    show that they were trained: their scales begin at 1.
    """
    if _scales_were_trained(evidence, role):
        return []
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    return [
        one.name
        for one in evidence.facts.parameters
        if one.role == role
        and len(one.shape) > 1
        and any(_is_about(one, kinds.get(one.name.rpartition(".")[0], ""), scheme) for scheme in _CLOSENESS)
    ]


def _scales_were_trained(evidence: Evidence, role: str) -> bool:
    """Whether the weight of a normalisation of a role is anything but 1."""
    norms = {layer.name for layer in evidence.facts.layers if "Norm" in layer.kind}
    return any(
        one.role == role
        and one.is_sampled
        and one.name.removesuffix(".weight") in norms
        and (one.mean, one.std) != (1, 0)
        for one in evidence.facts.parameters
        if len(one.shape) == 1
    )


def _is_about(one: ParameterFacts, kind: str, scheme: str) -> bool:
    """Whether a weight's spread is near what an initialisation draws it with; of a layer not known, a linear one's."""
    usual, _ = _drawn_with(one, kind or "Linear", scheme)
    return usual > 0 and abs(one.std / usual - 1) < _CLOSENESS[scheme]


def untouched(evidence: Evidence) -> list[str]:
    """The frozen weights, where each of them is as a usual initialisation draws it: nothing ever trained them; else [].

    Of what another training left, hardly a weight has the mean and the deviation that it was drawn with. A single small
    one may have them by chance, because a sample of few elements has large errors.
    """
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    if _scales_were_trained(evidence, "frozen"):
        return []
    frozen = [one for one in evidence.facts.parameters if one.role == "frozen" and len(one.shape) > 1 and not one.moves]
    named = [(one, kinds.get(one.name.rpartition(".")[0], "")) for one in frozen]
    are_new = any(all(_is_drawn(one, kind, scheme) for one, kind in named) for scheme in _SCHEMES)
    are_enough = sum(float(np.prod(one.shape)) for one in frozen) >= SAMPLED or all(map(_is_unrelated, frozen))
    return [one.name for one in frozen] if are_new and (len(frozen) > 1 or are_enough) else []


def drawn_alike(evidence: Evidence) -> list[str]:
    """The frozen embeddings, where they are several with a mean of zero and one deviation, to within errors; else [].

    Vectors that are drawn by hand may have any deviation. Trained ones seldom have the same, but for those that were
    divided by their lengths. Of small tables a sample's errors are too large to tell.
    """
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    frozen = [one for one in evidence.facts.parameters if one.role == "frozen" and len(one.shape) > 1 and not one.moves]
    are_tables = all(kinds.get(one.name.rpartition(".")[0], "").startswith("Embedding") for one in frozen)
    if len(frozen) < 2 or not are_tables or not all(one.is_sampled and one.std > 0 for one in frozen):
        return []
    common = float(np.sqrt(np.mean([one.std**2 for one in frozen])))
    are_one = all(
        np.prod(one.shape) >= SAMPLED
        and abs(one.std * np.sqrt(one.shape[1]) - 1) > _OF_UNIT_LENGTH
        and abs(one.mean) / common * np.sqrt(SAMPLED) < WITHIN
        and abs(one.std / common - 1) / np.sqrt(_OF_NORMAL / SAMPLED) < WITHIN
        for one in frozen
    )
    return [one.name for one in frozen] if are_one else []


def unrelated_rows(evidence: Evidence) -> list[str]:
    """The frozen embeddings, where the rows of each are no more alike than vectors that are drawn; else [].

    The square of a cosine of two random vectors of d numbers is 1/d on average, and deviates by √2 times that. A
    training moves rows together, and apart along few directions: words that are used alike come to be alike. PyTorch's
    own begin with a deviation of 1, which is so much that a short training may leave them as unrelated as they were.
    """
    tables = [one for one in evidence.facts.parameters if one.role == "frozen" and not one.moves and one.likeness]
    are_drawn = all(
        _is_unrelated(one)
        and not _OF_TORCH[0] < one.std < _OF_TORCH[1]
        and abs(one.mean) * np.sqrt(min(SAMPLED, int(np.prod(one.shape)))) < WITHIN * one.std
        for one in tables
        if one.likeness is not None
    )
    return [one.name for one in tables] if are_drawn else []


def _is_unrelated(one: ParameterFacts) -> bool:
    """Whether the rows of a table are as alike as random ones; False where they were not compared."""
    return one.likeness is not None and abs(one.likeness - 1) < WITHIN * np.sqrt(2 / _pairs(one.shape[0]))


def _pairs(rows: int) -> int:
    """How many pairs of rows ``likeness`` is the mean of."""
    some = -(-rows // -(-rows // MOST_ROWS))
    return some * (some - 1) // 2


def _is_drawn(one: ParameterFacts, kind: str, scheme: str) -> bool:
    """Whether a weight has the mean and the deviation that an initialisation draws it with.

    The sample of n has a mean within their deviation over √n and, since the kurtosis is 3 of a normal and 9/5 of a
    uniform distribution, a deviation within √(0.5/n) or √(0.2/n) of it.
    """
    usual, spread = _drawn_with(one, kind, scheme)
    if not usual or not one.is_sampled:
        return False
    count = min(SAMPLED, int(np.prod(one.shape)))
    errors = abs(one.std / usual - 1) / np.sqrt(spread / count), abs(one.mean) / usual * np.sqrt(count)
    return bool(max(errors) < WITHIN)


def _drawn_with(one: ParameterFacts, kind: str, scheme: str) -> tuple[float, float]:
    """The deviation that a weight is drawn with, and a quarter of its kurtosis less one; 0 where that is not known.

    PyTorch's own: embeddings are normal, all others uniform, up to one over the root of their fan-in, or of the hidden
    size in a recurrent layer; attention's are Xavier's. Others draw all with Xavier's, as ``torch.nn.Transformer``, or
    normal ones of 0.02, as transformers since BERT (Devlin et al. 2019).
    """
    if not all(one.shape):
        return 0.0, _OF_UNIFORM
    has_fan = kind.startswith(("Linear", "Conv", "NonDynamicallyQuantizableLinear", "MultiheadAttention"))
    fields = float(np.prod(one.shape[2:]))
    xavier = float(np.sqrt(2 / ((one.shape[0] + one.shape[1]) * fields)))
    if scheme == "normal":
        return (0.02 if has_fan or kind == "Embedding" else 0.0), _OF_NORMAL
    if kind == "Embedding":
        return 1.0, _OF_NORMAL
    if kind in RECURRENT:
        return float(np.sqrt(RECURRENT[kind] / (3 * one.shape[0]))), _OF_UNIFORM
    if kind == "MultiheadAttention" or (has_fan and scheme == "xavier"):
        return xavier, _OF_UNIFORM
    return (1 / float(np.sqrt(3 * np.prod(one.shape[1:]))) if has_fan else 0.0), _OF_UNIFORM


def new_behind_trained(evidence: Evidence) -> str:
    """The frozen weight that nothing trained, with one before it that was; "" if none is.

    Behind it stands a trained one, or none at all, as behind a new head. What has an adapter is a body's: of many, some
    look new by chance.
    """
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    weights = [
        one
        for one in evidence.facts.parameters
        if len(one.shape) > 1 and kinds.get(one.name.rpartition(".")[0], "").startswith(("Linear", "Conv"))
    ]
    was_trained, found = False, ""
    for one in weights:
        if one.role == "trained" and found:
            return found
        if one.role != "frozen":
            continue
        kind = kinds.get(one.name.rpartition(".")[0], "")
        narrows = one is weights[-1] and one.shape[0] < one.shape[1]  # a language model's last one has a row a token
        is_drawn = _is_drawn(one, kind, "torch") or (narrows and _is_drawn(one, kind, "normal"))
        is_new = is_drawn and not _is_adapted(one, evidence.facts)
        found = one.name if is_new and was_trained else found
        was_trained |= not is_new
    return found if found and found == weights[-1].name else ""


def _is_adapted(one: ParameterFacts, facts: Facts) -> bool:
    """Whether a trained adapter stands beside a weight, in the same module."""
    parent = one.name.rpartition(".")[0].rpartition(".")[0]
    return any(
        other.role == "trained" and other.name.startswith(f"{parent}.") and _ADAPTER.search(other.name[len(parent) :])
        for other in facts.parameters
    )
