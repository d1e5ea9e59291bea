"""The comparison of two runs in plain words."""

from collections.abc import Sequence

from tracker_adapters.wording import counted

from debuggers.diagnosis.cause import Cause
from debuggers.diagnosis.comparison import Comparison

_MOST = 12


def comparison_lines(
    comparison: Comparison, names: tuple[str, str], causes: tuple[Sequence[Cause], Sequence[Cause]] = ((), ())
) -> list[str]:
    """Returns what differs between two runs in lines, what differs first at the beginning.

    Args:
        comparison: Of the two.
        names: Of the runs.
        causes: What is wrong with each.
    """
    lines = [f"{names[0]} against {names[1]}:"]
    if comparison.facts:
        lines.append("Settings that differ:")
        lines += [f"  {one.name}: {one.first} against {one.second}" for one in comparison.facts[:_MOST]]
        lines += _rest(len(comparison.facts))
    else:
        lines.append("No setting that is known differs.")
    if not comparison.compared:
        lines.append("No signal is known of both at the same step.")
    elif not comparison.series:
        lines.append(f"{counted(comparison.compared, 'signals')} known of both: all are equal at their common steps.")
    else:
        lines.append(f"Of {counted(comparison.compared, 'signals')} {len(comparison.series)} differ; first:")
        for one in comparison.series[:_MOST]:
            since = f"since step {one.since_step:,}"
            if one.beyond_noise is None:
                since += ", never by more than noise"
            elif one.beyond_noise != one.since_step:
                since += f", by more than noise since step {one.beyond_noise:,}"
            lines.append(f"  {one.name}: {since} ({apart(one.first, one.second)})")
        lines += _rest(len(comparison.series))
    for name, found in zip(names, causes, strict=True):
        lines.append(f"Causes in {name}: {'; '.join(map(str, found[:3])) or 'none found'}")
    return lines


def paired(first: Sequence[str], second: Sequence[str]) -> tuple[list[tuple[str, str]], tuple[list[str], list[str]]]:
    """Returns which scopes of two runs are compared with each other, and those of each that are alone.

    Scopes of the same name are, and where each run has only one, these, whatever they are called.
    """
    if len(first) == len(second) == 1:
        return [(first[0], second[0])], ([], [])
    alone = [one for one in first if one not in second], [one for one in second if one not in first]
    return [(one, one) for one in first if one in second], alone


def apart(first: float, second: float) -> str:
    """Returns two numbers that differ with as many digits as show it, four or more."""
    for digits in range(4, 18):
        ours, theirs = f"{first:.{digits}g}", f"{second:.{digits}g}"
        if ours != theirs:
            break
    return f"{ours} against {theirs}"


def _rest(count: int) -> list[str]:
    return [f"  and {count - _MOST} more"] if count > _MOST else []
