"""Shows alerts on standard error, where the person who trains looks first."""

import logging
import threading

from tracker_adapters.artifacts import Alert
from tracker_adapters.terminal_text import printable, say

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_SHARED = (
    "_gradient",
    "_update",
    "weights_stand_still",
    "idle_optimizer",
    "non_finite_weight",
    "outside_optimizer",
    "skipped_steps",
)
"""Ends of names of alerts that all ranks have: they share gradients and weights."""
_log = logging.getLogger(__name__)


class TerminalAlerts:
    """Prints the first alert of each name, from level warning on, and says where the later ones are.

    Those go to the log, at level info, and so do alerts of that level. Of several ranks, the first one prints
    all alerts, and the others what is their own: nothing about gradients and weights, which they share.
    """

    def __init__(self, place: str, *, rank: int = 0) -> None:
        """Says where alerts are recorded, such as the folder of a run."""
        self._place, self._rank = place, rank
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def tell(self, alert: Alert) -> None:
        """Prints an alert or logs it; may be called from any thread."""
        text = printable(f"{alert.name}: {_at_step(alert)}")
        with self._lock:
            first = alert.name not in self._told
            if first and self._prints(alert):
                self._told.add(alert.name)
            else:
                _log.info("%s", text)
                return
        where = f"recorded in {self._place}; later alerts of this name are recorded, not printed"
        say(f"{alert.level}: {text} ({where})", rank=self._rank)

    def _prints(self, alert: Alert) -> bool:
        if _LEVELS[alert.level] < logging.WARNING:
            return False
        return self._rank == 0 or not alert.name.endswith(_SHARED)


def _at_step(alert: Alert) -> str:
    return alert.message if "step" in alert.message else f"{alert.message} at step {alert.step}"
