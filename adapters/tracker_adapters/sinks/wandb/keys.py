"""Names of artifacts as W&B keys, and back."""

import hashlib
import re
from collections.abc import Mapping
from urllib.parse import unquote

from tracker_adapters.artifacts import KINDS

STEP_KEY = "step"
NAME_KEY = "_name"
LONGEST_RUN_ID = 40
_LONGEST_MEDIA_KEY = 100
_LONGEST_TABLE_KEY = 44
"""In UTF-8 bytes. Of the keys of media W&B makes file names, which end at 255 bytes, and of run id and key of a
table the name of a W&B artifact, which ends at 128 characters."""

_OURS = "|".join((*KINDS, "nan", r"\+inf", "-inf", r"rows from \d+"))
_SUFFIX = re.compile(rf" \(({_OURS})\)$")
_TO_ESCAPE = re.compile(
    rf"%(?=[0-9A-Fa-f]{{2}})|[\x00-\x1f\x7f\\]|^[_/]|/(?=/)|/$|(?:^|(?<=/))\.{{1,2}}(?=/|$)|^s(?=tep$)"
    rf"|(?<=^[A-Za-z]):|\((?=(?:{_OURS})\)$)"
)


class Keys:
    """Gives each name its key.

    The kind that uses a name first has the name itself as its key; another kind under the same name gets
    the kind behind it, as in ``layer1/weight (histogram)``, since W&B shows one kind a key.
    """

    def __init__(self, owners: Mapping[str, str] | None = None) -> None:
        self.owners: dict[str, str] = dict(owners or {})
        """Which kind has each name for itself."""
        self._keys: dict[tuple[str, str], str] = {}

    def of(self, kind: str, name: str) -> str:
        """Returns the key of a name that holds artifacts of this kind."""
        key = self._keys.get((kind, name))
        if key is None:
            suffix = "" if self.owners.setdefault(name, kind) == kind else f" ({kind})"
            key = self._keys[kind, name] = escape(name, kind) + suffix
        return key


def escape(name: str, kind: str = "scalar") -> str:
    """Returns a name as W&B takes it: what would get lost is percent-encoded, ordinary names stay.

    Encoded are control characters, backslashes, a leading underscore (W&B's own keys), slashes, dots and a
    colon that mean something else in a path, ``step``, what looks like one of our suffixes or like
    percent-encoding. A long name of another kind than a scalar is cut and ends in a checksum; its rows hold
    the whole name under ``_name``.
    """
    key = _TO_ESCAPE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)
    longest = _LONGEST_TABLE_KEY if kind in {"table", "curve"} else _LONGEST_MEDIA_KEY
    if kind == "scalar" or len(key.encode()) <= longest:
        return key
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return key.encode()[: longest - 17].decode(errors="ignore") + "~" + digest


def unescape(key: str) -> tuple[str, str]:
    """Returns the name behind a key that is not cut, and the suffix that the key has, without brackets."""
    suffix = _SUFFIX.search(key)
    return unquote(key[: suffix.start()] if suffix else key), suffix[1] if suffix else ""
