"""How people look at what a run's sinks have written."""

from collections import Counter
from collections.abc import Sequence

from tracker_adapters.config import SinkConfig
from tracker_adapters.redaction import redact
from tracker_adapters.registry import load_sink


def how_to_look(sinks: Sequence[object]) -> dict[str, str]:
    """Returns for each sink a command, or where its output lies; sinks that are objects are omitted.

    Two sinks of one type are distinguished by their target.
    """
    configs = [sink for sink in sinks if isinstance(sink, SinkConfig)]
    types = Counter(config.type for config in configs)
    return {
        config.type if types[config.type] == 1 else redact(f"{config.type}:{config.target}"): redact(
            load_sink(config.type).look(config.options)
        )
        for config in configs
    }
