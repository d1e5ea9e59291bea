"""File names for artifacts: any name becomes one path component that is safe on every file system."""

import hashlib
import re
from pathlib import PurePath

_PLAIN = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_-])?")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_ENDS_LIKE_A_DIGEST = re.compile(r"-[0-9a-f]{16}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_~-]")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}")
_LONGEST = 100


def safe_component(name: str) -> str:
    """Returns the folder name that stands for an artifact's name.

    Slashes become ``~``: ``grad/fc1`` is ``grad~fc1``. A name that is not plain lower-case ASCII, is reserved on
    Windows or is longer than 100 characters is shortened to what is safe of it and ends in a dash and 16
    hexadecimal digits of its SHA-256; so two names never share a folder, on file systems that ignore case
    neither. The index beside the folders has the name itself.
    """
    joined = name.replace("/", "~")
    parts = name.split("/")
    if (
        len(name) <= _LONGEST
        and all(_PLAIN.fullmatch(part) for part in parts)
        and not _RESERVED.fullmatch(joined)
        and not _ENDS_LIKE_A_DIGEST.fullmatch(joined[-17:])
    ):
        return joined
    readable = _UNSAFE.sub("_", joined[:60]).lstrip("-~") or "name"
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def safe_suffix(filename: str) -> str:
    """Returns the suffix of a user's file name, such as ``.html``; empty unless it is plain ASCII."""
    suffix = PurePath(filename).suffix
    return suffix if _SUFFIX.fullmatch(suffix) else ""
