"""Rules that installed packages offer as entry points of the group ``stepscope.detectors``."""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from debuggers.detectors.signals.front import Rule
from debuggers.detectors.signals.rule_check import check_rule

ENTRY_POINT_GROUP = "stepscope.detectors"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,60}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DetectorPlugin:
    """An entry point.

    Attributes:
        name: Its name.
        distribution: The installed package that offers it, with its version.
        make: Returns a new rule; None if it could not be loaded.
        problem: Why it is left out; empty if it works.
    """

    name: str
    distribution: str
    make: Callable[[], Rule] | None = None
    problem: str = ""


@cache
def detector_plugins() -> tuple[DetectorPlugin, ...]:
    """Returns what is installed, loaded once in a process; of two with one name the first on the path counts.

    What cannot be loaded, or makes no rule, is told once in the log.
    """
    found: dict[str, DetectorPlugin] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        # Another name is no text for a terminal.
        if _NAME.fullmatch(entry.name) and entry.name not in found:
            found[entry.name] = _loaded(entry)
    for plugin in found.values():
        if plugin.problem:
            _log.warning(
                "the detector %r of %s is left out: %s", plugin.name, plugin.distribution or "?", plugin.problem
            )
    return tuple(found.values())


def plugin_rules() -> list[Rule]:
    """Returns a new rule of each plug-in; never raises."""
    rules = []
    for plugin in detector_plugins():
        if plugin.make is not None:
            try:
                rules.append(plugin.make())
            except Exception as error:  # it made one when it was loaded
                _log.warning("the detector %r is left out: %r", plugin.name, error)
    return rules


def _loaded(entry: EntryPoint) -> DetectorPlugin:
    distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
    try:
        make = entry.load()
        check_rule(make())
    except (Exception, SystemExit) as error:  # a foreign module can raise anything
        reason = f"{type(error).__name__}: {error}"
        return DetectorPlugin(entry.name, distribution, problem=f"{entry.value}: {reason}")
    return DetectorPlugin(entry.name, distribution, make)
