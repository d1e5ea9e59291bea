"""What the probes of a batch found."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The results of ``session.probe``.

    Attributes:
        results: By the probe's name; each has numbers, and a sentence under ``evidence``. They are part of the
            evidence of the session as ``Facts.probes``.
        failures: Why a probe has no result, by its name.
        step: The last step before the probes; -1 before the first.
    """

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    step: int = -1

    def summary(self) -> str:
        """Returns one line for each probe."""
        lines = [f"{name}: {result['evidence']}" for name, result in self.results.items()]
        lines += [f"{name}: not judged, {reason}" for name, reason in self.failures.items()]
        return "\n".join(lines) or "nothing was probed"
