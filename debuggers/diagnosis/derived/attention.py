"""Layers of attention: which there are, whether they are trained, and steps that are too large for them."""

from collections.abc import Sequence

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import LayerFacts


def attention_layers(layers: Sequence[LayerFacts]) -> list[str]:
    """Returns the names of the layers of attention, as far as their classes tell."""
    return [one.name for one in layers if "Attention" in one.kind or "NonDynamicallyQuantizable" in one.kind]


def trains_attention(evidence: Evidence) -> bool:
    """Whether a layer of attention is trained: before a frozen transformer, a prompt alone may be."""
    names = attention_layers(evidence.facts.layers)
    roles = [one.role for one in evidence.facts.parameters if any(one.name.startswith(f"{name}.") for name in names)]
    return bool(names) and (not roles or set(roles) != {"frozen"})


def attends_at_first(evidence: Evidence) -> bool:
    """Whether a layer of attention is among what is trained in the first step, and not thawed later."""
    names, updates = attention_layers(evidence.facts.layers), evidence.of_tensors("parameter_update_ratio")
    begins = [one.first_step for name, one in updates.items() if name.startswith(tuple(f"{n}." for n in names))]
    return not begins or min(begins) <= int(evidence["loss"].steps[0])


def norms_come_first(evidence: Evidence) -> bool:
    """Whether blocks normalise what enters their attention: such ones need no warm-up (Xiong et al. 2020)."""
    facts = evidence.facts
    kinds = {layer.name: layer.kind for layer in facts.layers}
    attention = {name.removesuffix(".out_proj") for name in attention_layers(facts.layers)}
    called = [name for name in facts.called or kinds if "Dropout" not in kinds.get(name, "")]
    first = next((place for place, name in enumerate(called) if name.removesuffix(".out_proj") in attention), 0)
    return first > 0 and "Norm" in kinds.get(called[first - 1], "")
