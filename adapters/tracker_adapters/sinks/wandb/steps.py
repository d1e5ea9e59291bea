"""The last step of each name, which shows whether a resumed run goes back."""

from collections.abc import Mapping, Sequence

from tracker_adapters.sink import Batch, HistogramRows


class LastSteps:
    """The last step of each name, by kind.

    Args:
        by_kind: What another one had.
    """

    def __init__(self, by_kind: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self.by_kind: dict[str, dict[str, int]] = {kind: dict(steps) for kind, steps in (by_kind or {}).items()}

    def follow(self, batch: Batch) -> None:
        """Takes note of a batch."""
        for kind, names, steps in _columns(batch):
            if names:
                self.by_kind.setdefault(kind, {}).update(zip(names, steps, strict=True))

    def gone_back_in(self, batch: Batch) -> bool | None:
        """Whether a batch repeats a step, or goes back behind one; None when none of its names is known.

        Scalars decide; where none is known, histograms and pictures do. Other kinds often say the same again at each
        start.
        """
        answers = [self._gone_back(*column) for column in _columns(batch)]
        if answers[0] is not None:
            return answers[0]
        return any(answers) if answers != [None] * len(answers) else None

    def _gone_back(self, kind: str, names: Sequence[str], steps: Sequence[int]) -> bool | None:
        last = self.by_kind.get(kind, {})
        first = dict(zip(reversed(names), reversed(steps), strict=True))
        known = first.keys() & last.keys()
        return any(first[name] <= last[name] for name in known) if known else None


def _columns(batch: Batch) -> list[tuple[str, Sequence[str], Sequence[int]]]:
    """Each series kind's names and steps, in order; scalars first."""
    histograms = HistogramRows.of(batch.histograms.artifacts)
    images = batch.images.artifacts
    return [
        ("scalar", batch.scalars.names, batch.scalars.steps.tolist()),
        ("histogram", histograms.names, histograms.steps.tolist()),
        ("image", [one.name for one in images], [one.step for one in images]),
    ]
