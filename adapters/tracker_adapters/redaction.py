"""Removes secrets from texts and configurations before they reach a disk, a log or a tracker."""

import os
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from tracker_adapters.secret_formats import (
    BEHIND_A_WORD,
    FORMS,
    PRIVATE_KEY,
    PRIVATE_KEY_BEGINS,
    PRIVATE_KEY_ENDS,
    QUERY_OF_URL,
    USER_OF_URL,
)
from tracker_adapters.secret_names import is_name_of_key, is_secret_name, may_be_secret_name
from tracker_adapters.terminal_text import printable

MASK = "***"
MIN_VALUE_LENGTH = 8
"""A variable's value that is shorter may be an ordinary word, and is not looked for in texts."""
_LETTERS_OF_A_WORD = 16
_NO_SECRETS = frozenset({"PWD", "OLDPWD"})

# Two patterns, since one that takes name and value at once needs quadratic time.
_NAME = re.compile(r"(?<![\w.-])([A-Za-z_-][\w.-]{0,200})(\\{0,7}[\"']?\s{0,3}(?:=>|=|:|%3[DdAa])\s{0,3}|[ \t]{1,3})")
_ENCLOSED = re.compile(
    r"\"{3}.{0,2000}?\"{3}|'{3}.{0,2000}?'{3}"
    r"|(?P<escaped>\\{1,7}[\"']).{0,2000}?(?P=escaped)"  # in JSON that is itself in a text
    r"|[|>][+-]?\n[ \t]+[^\n]+"  # a block of YAML
    r"|[bBrRuUfF]{0,2}(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|\([^()\n]*\)|\[[^\[\]\n]*\]",
    re.DOTALL,
)
_BARE = re.compile(r"[^\s,;&\"'(){}\[\]]+")
_ENOUGH_TO_TELL = 256
"""Characters of a bare value that are looked at: one without a blank can hold many names, each with the rest behind."""
_remembered: set[str] = set()
_MOST_REMEMBERED = 1000
_MOST_HELD = 100_000
_LOOKS_RANDOM = re.compile(r"(?=.*\d).{8,}", re.DOTALL)
_RANDOM_KEY = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+/=]{20,}")
_QUOTE = re.compile(r"\"{3}$|'{3}$|\\{0,7}[\"']$")


def redact(text: str) -> str:
    """Returns a text with ``***`` in place of its secrets; redacting it again changes nothing.

    Secrets are what stands behind a name that says so (``api_key=…``, ``"password": "…"``, ``--token …``), users and
    passwords in URLs, keys of well-known forms (cloud, forge and model-hub tokens, JSON web tokens, PEM private
    keys), and the values of environment variables whose names say secret, where these are at least 8 characters
    long and no plain word.
    """
    for value in sorted(_remembered | _environment_values(), key=len, reverse=True):
        text = text.replace(value, MASK)
    if PRIVATE_KEY_BEGINS in text:
        text = PRIVATE_KEY.sub(MASK, text)
    if "://" in text:
        text = USER_OF_URL.sub(f"{MASK}@", text)
        text = QUERY_OF_URL.sub(lambda match: f"{match[1] or match[2]}={MASK}", text)
    text = FORMS.sub(lambda match: (match["before"] or "") + MASK, text)
    for pattern in BEHIND_A_WORD:
        text = pattern.sub(lambda match: match[1] + MASK, text)  # a template would be parsed at each call
    return _redact_assigned(text)


def redact_remembered(text: str) -> str:
    """Returns a text with ``***`` in place of what was a secret in a configuration before, and of nothing else."""
    for value in sorted(_remembered, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def redact_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of a configuration of JSON's types with ``***`` in place of its secrets, at any depth.

    A key that names a secret keeps its name; True, False and None stay. Other texts are redacted as ``redact`` does;
    in a list of arguments, also what follows ``--password``.

    What was a secret here is one in every text that this process redacts later.
    """
    known = len(_remembered)
    redacted = _redact_mapping(config, secret=False)
    # What is a secret here may stand as an ordinary text before it.
    return redacted if len(_remembered) == known else _redact_mapping(redacted, secret=False)


class RedactingStream:
    """Stands before a text stream: lines that are written to it come out without secrets and control characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = ""

    def write(self, text: str) -> int:
        """Takes a piece of text; whole lines are passed on."""
        lines, newline, rest = (self._line + text).rpartition("\n")
        if newline and lines.rfind(PRIVATE_KEY_BEGINS) > lines.rfind(PRIVATE_KEY_ENDS) and len(lines) < _MOST_HELD:
            lines, newline, rest = "", "", self._line + text  # until the end of the key has come, too
        self._line = rest
        if newline:
            self._stream.write(printable(redact(lines)) + newline)
        return len(text)

    def flush(self) -> None:
        """Passes on a line that is not finished yet."""
        line, self._line = self._line, ""
        self._stream.write(printable(redact(line)))
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def redact_output() -> None:
    """Has everything redacted that this process writes to ``sys.stdout`` and ``sys.stderr`` from now on."""
    sys.stdout = RedactingStream(sys.stdout)
    sys.stderr = RedactingStream(sys.stderr)


def remember_secrets(config: Mapping[str, Any]) -> None:
    """Has ``redact`` leave out, from now on, what is secret in a configuration of JSON's types."""
    redact_config(config)


def _environment_values() -> set[str]:
    # Reading a variable costs more than its name: only those whose names say secret are read.
    names = [name for name in os.environ if is_secret_name(name) and name not in _NO_SECRETS]
    return {value for name in names if _is_no_word(value := os.environ.get(name, ""))}


def _is_no_word(value: str) -> bool:
    return len(value) >= MIN_VALUE_LENGTH and not (value.isalpha() and len(value) < _LETTERS_OF_A_WORD)


def _remember(value: str) -> None:
    if _is_no_word(value) and MASK not in value and len(_remembered) < _MOST_REMEMBERED:
        _remembered.add(value)


def _redact_value(value: Any, *, secret: bool) -> Any:
    if isinstance(value, Mapping):
        return _redact_mapping(value, secret=secret)
    if isinstance(value, (list, tuple)):
        # ["--password", "x"], as sys.argv has it, or ["password", "x"], as a mapping's items
        pair = len(value) == 2
        flags = [False, *(isinstance(item, str) and _says_secret(item, pair=pair) for item in value)]
        return [_redact_value(item, secret=secret or flag) for item, flag in zip(value, flags, strict=False)]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if secret:
        _remember(str(value))
        return MASK
    if not isinstance(value, str):
        return value
    for user in USER_OF_URL.findall(value):
        _remember(user[:-1].rpartition(":")[2])
    return redact(value)


def _redact_mapping(config: Mapping[str, Any], *, secret: bool) -> dict[str, Any]:
    # {"name": "API_KEY", "value": "x"}, as containers have their environment
    named = any(isinstance(name := config.get(key), str) and is_secret_name(name) for key in ("name", "key"))
    return {
        redact(key): _redact_value(
            item,
            secret=secret
            or is_secret_name(key)
            or (named and key == "value")
            or (isinstance(item, str) and _gives_away_weakly(key, item)),
        )
        for key, item in config.items()
    }


def _says_secret(text: str, *, pair: bool) -> bool:
    """Whether the next item of a list is a secret: of an option, or in a pair of name and value."""
    return (text.startswith("-") or (pair and text.isidentifier())) and "=" not in text and is_secret_name(text)


def _gives_away_weakly(name: str, value: str) -> bool:
    """Whether a value is a secret although its name can also mean something else, such as ``pass`` or ``key``."""
    if is_name_of_key(name):
        return _RANDOM_KEY.fullmatch(value) is not None
    return may_be_secret_name(name)


def _redact_assigned(text: str) -> str:
    pieces: list[str] = []
    kept = start = 0
    while (match := _NAME.search(text, start)) is not None:
        start = match.end()
        name, sign = match.groups()
        gives_away = _gives_away if is_secret_name(name) else _gives_away_in_text if may_be_secret_name(name) else None
        if gives_away is None:
            continue
        value = enclosed = _ENCLOSED.match(text, start)
        if value is None:
            value = _BARE.match(text, start, start + _ENOUGH_TO_TELL)
        if value is None or not gives_away(name, sign, value[0]):
            continue
        value = enclosed or _BARE.match(text, start) or value
        quote = _QUOTE.search(value[0])
        pieces += text[kept:start], f"{quote[0]}{MASK}{quote[0]}" if quote else MASK
        kept = start = value.end()
    return "".join([*pieces, text[kept:]])


def _gives_away_in_text(name: str, sign: str, value: str) -> bool:
    """Whether a value behind a name that can also mean something else looks like a secret."""
    bare = value.strip("\\\"'")
    if not sign.strip() or value.startswith("="):
        return False
    return _LOOKS_RANDOM.fullmatch(bare) is not None and _gives_away_weakly(name, bare)


def _gives_away(name: str, sign: str, value: str) -> bool:
    """Whether what stands behind a secret's name is its value, rather than prose about it."""
    if value.strip("\\\"'") in {"", "None", "null", "True", "true", "False", "false", MASK}:
        return False
    sign = sign.strip()
    if not sign:  # only "--password x": prose has a blank behind a word too
        return name.startswith("-") and not value.startswith("-")
    if "=" in sign or sign[0] in "\\\"'%":
        return not value.startswith("=")
    is_a_word_of_prose = name.rpartition(".")[2].isalpha() and "passw" not in name.lower()
    return not is_a_word_of_prose or _LOOKS_RANDOM.fullmatch(value) is not None
