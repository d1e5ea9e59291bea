r"""Names for MLflow: a reversible escape for metric, param and tag keys, and safe file names for artifacts.

MLflow takes keys of ``[/\w.\- :]*`` that are normalised paths of at most 250 characters. What it refuses, and
the colon, are escaped as UTF-8 bytes in hexadecimal, as in a web address but with ``:`` for ``%``:
``grad[0]`` becomes ``grad:5B0:5D``. Ordinary names such as ``train/loss`` stay as they are.
"""

import hashlib
import re
from urllib.parse import unquote

MAX_KEY_LENGTH = 250
_CUT_MARK = "::"
_DIGEST_LENGTH = 32
_ESCAPED = re.compile(
    r"[^/\w.\- ]"  # what MLflow refuses, and our own colon
    r"|^ | $"  # a space at an end is invisible, and some databases compare without it
    r"|^/|/$|(?<=/)/"  # paths that would be normalised
    r"|(?:^|(?<=/))\.(?=\.?(?:/|\Z))"  # the first dot of a segment that is . or ..
    r"|^\.(?=\.)"  # MLflow refuses every name that begins with two dots
)
_PLAIN_FILE_NAME = re.compile(r"[a-z0-9_-][a-z0-9_.-]{0,79}")
_UNSAFE_IN_FILE_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def metric_key(name: str) -> str:
    """Returns the key of ``name``; two names never share one.

    A key that would be too long is cut, and ends in ``::`` and a checksum of the whole name: it then needs
    ``digest_of_cut_key`` and a record of the name to be read back.
    """
    key = _ESCAPED.sub(lambda match: "".join(f":{byte:02X}" for byte in match.group().encode()), name)
    if len(key) <= MAX_KEY_LENGTH:
        return key
    return key[: MAX_KEY_LENGTH - _DIGEST_LENGTH - len(_CUT_MARK)] + _CUT_MARK + _digest(name, _DIGEST_LENGTH)


def digest_of_cut_key(key: str) -> str | None:
    """Returns the checksum at the end of a key that was cut, or None when ``name_of_key`` can read it."""
    _, mark, digest = key.rpartition(_CUT_MARK)
    return digest if mark else None


def name_of_key(key: str) -> str:
    """Returns the name behind a key of ``metric_key`` that was not cut."""
    return unquote(key.replace(":", "%"))


def file_stem(name: str) -> str:
    """Returns a file name for an artifact's name, safe on every file system and in MLflow's own viewers.

    Slashes become ``~`` (which MLflow's image grid shows as slashes again). A name that is not plain lower-case
    ASCII also gets a checksum, so that ``case`` and ``Case`` stay apart where file names ignore case.
    """
    if all(_PLAIN_FILE_NAME.fullmatch(part) for part in name.split("/")) and len(name) <= 100:
        return name.replace("/", "~")
    readable = _UNSAFE_IN_FILE_NAME.sub("_", name.replace("/", "~"))[:80].lstrip(".~")
    return f"{readable or 'name'}-{_digest(name, 12)}"


def safe_file_name(name: str) -> str:
    """Returns a user's file name without anything that could lead out of a folder; the suffix is kept."""
    return _UNSAFE_IN_FILE_NAME.sub("_", name)[-100:].lstrip(".") or "file"


def _digest(name: str, length: int) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:length]
