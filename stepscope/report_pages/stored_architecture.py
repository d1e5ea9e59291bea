"""The size of a model from the facts of its training, as where a session was killed before it stored its report."""

import math
from collections import Counter
from collections.abc import Iterator

from tracker_adapters.wording import counted

from debuggers.diagnosis.facts import Facts
from debuggers.pictures.names import shortened

_MOST_LISTED = 1000
"""Facts list so many parameters and layers at most: the model may have more."""
_SHOWN = 3
_LONGEST_NAME = 80


def architecture_lines(facts: Facts) -> Iterator[str]:
    """Yields what is known of the model's size and depth, in sentences; nothing where no parameter is known."""
    by_module: Counter[str] = Counter()
    for one in facts.parameters:
        by_module[one.name.rpartition(".")[0]] += math.prod(one.shape)
    total = by_module.total()
    if not total:
        return
    is_whole = len(facts.parameters) < _MOST_LISTED
    layers = f"{counted(len(facts.layers), 'layers')}{'' if len(facts.layers) < _MOST_LISTED else ' or more'}"
    depth = max((one.name.count(".") + 1 if one.name else 0 for one in facts.layers), default=0)
    nested = f", {layers}, nested {depth} deep" if facts.layers else ""
    yield f"{counted(total, 'parameters')}{'' if is_whole else ' or more'}{nested}."
    if is_whole and len(by_module) > 1:
        largest = by_module.most_common(_SHOWN)
        shares = (
            f"{shortened(name, _LONGEST_NAME) or 'the model itself'} ({count / total:.0%})" for name, count in largest
        )
        yield f"Most parameters: {', '.join(shares)}."
