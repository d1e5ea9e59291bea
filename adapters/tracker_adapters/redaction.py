"""Takes secrets out of texts and configurations before they reach a disk, a log or a tracker."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from tracker_adapters.secret_names import is_secret_name

MASK = "***"
MIN_VALUE_LENGTH = 8
"""A variable's value that is shorter may be an ordinary word, and is not looked for in texts."""
_LETTERS_OF_A_WORD = 16
_NO_SECRETS = frozenset({"PWD", "OLDPWD"})

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
# The first form takes also a password that holds a slash or an @, which its author should have encoded.
_USER_OF_URL = re.compile(
    r"(?<=://)(?:[^\s:/@\"'<>]{0,200}:(?!\d{1,5}(?:[/?#\s\"']|$))[^\s\"'<>]{1,500}@|[^\s/?#\"'<>]{1,500}@)"
)
_QUERY_OF_URL = re.compile(
    r"(?<=[?&])(sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=[^&\s\"']+", re.I
)
# The forms that GitHub's and other vendors' documentation gives for their keys.
_KEYS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}"
    r"|[spr]k[-_](?=[\w-]*\d)[A-Za-z0-9_-]{16,}|AIza[\w-]{30,}|ya29\.[\w.-]{20,}|xox[abeoprs]-[\w-]{10,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}|dapi[0-9a-f]{32}|SG\.[\w-]{16,}\.[\w-]{16,}|[a-z]{4,8}_v1_[\w-]{40,}"
    r"|hooks\.slack\.com/services/[\w/-]+|eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?"
    r")"
)
_BEARER = re.compile(r"\b(bearer\s+)(?=\S*\d)[\w.~+/=-]{12,}", re.I)
_AUTHORIZATION = re.compile(r"\b(authorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?)[^\s\"',;]+", re.I)
_COOKIES = re.compile(r"\b((?:set-)?cookie[\"']?\s*[:=]\s*[\"']?)(?=[\w.-]+=)[^\n\"']+", re.I)
# Two patterns, since one that takes name and value at once needs quadratic time.
_NAME = re.compile(r"(?<![\w.-])([A-Za-z_-][\w.-]{0,200})([\"']?\s{0,3}(?:=>|=|:)\s{0,3}|[ \t]{1,3})")
_VALUE = re.compile(
    r"[bBrRuUfF]{0,2}(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|\([^()\n]*\)|\[[^\[\]\n]*\]|[^\s,;&\"'(){}\[\]]+"
)
_remembered: set[str] = set()
_MOST_REMEMBERED = 1000
_LOOKS_RANDOM = re.compile(r"(?=.*\d).{8,}", re.DOTALL)


def redact(text: str) -> str:
    """Returns a text with ``***`` in place of its secrets; redacting it again changes nothing.

    Secrets are what stands behind a name that says so (``api_key=…``, ``"password": "…"``, ``--token …``), users and
    passwords in URLs, keys of well-known forms (cloud, forge and model-hub tokens, JSON web tokens, PEM private
    keys), and the values of environment variables whose names say secret, where these are at least 8 characters
    long and no plain word.
    """
    for value in sorted(_remembered | _environment_values(), key=len, reverse=True):
        text = text.replace(value, MASK)
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(MASK, text)
    if "://" in text:
        text = _USER_OF_URL.sub(f"{MASK}@", text)
        text = _QUERY_OF_URL.sub(rf"\1={MASK}", text)
    text = _KEYS.sub(MASK, text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _AUTHORIZATION.sub(rf"\1{MASK}", text)
    text = _COOKIES.sub(rf"\1{MASK}", text)
    return _redact_assigned(text)


def redact_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of a configuration of JSON's types with ``***`` in place of its secrets, at any depth.

    A key that names a secret keeps its name; True, False and None stay. Other texts are redacted as ``redact`` does;
    in a list of arguments, also what follows ``--password``.

    What was a secret here is one in every text that this process redacts later.
    """
    return {redact(key): _redact_value(value, secret=is_secret_name(key)) for key, value in config.items()}


class RedactingStream:
    """Stands before a text stream and redacts what is written to it, line by line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = ""

    def write(self, text: str) -> int:
        """Takes a piece of text; whole lines are passed on."""
        lines, newline, self._line = (self._line + text).rpartition("\n")
        if newline:
            self._stream.write(redact(lines) + newline)
        return len(text)

    def flush(self) -> None:
        """Passes on a line that is not finished yet."""
        line, self._line = self._line, ""
        self._stream.write(redact(line))
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
    return {
        value
        for name, value in os.environ.items()
        if name not in _NO_SECRETS and is_secret_name(name) and _is_no_word(value)
    }


def _is_no_word(value: str) -> bool:
    return len(value) >= MIN_VALUE_LENGTH and not (value.isalpha() and len(value) < _LETTERS_OF_A_WORD)


def _remember(value: str) -> None:
    if _is_no_word(value) and MASK not in value and len(_remembered) < _MOST_REMEMBERED:
        _remembered.add(value)


def _redact_value(value: Any, *, secret: bool) -> Any:
    if isinstance(value, Mapping):
        return {redact(key): _redact_value(item, secret=secret or is_secret_name(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        # ["--password", "x"], as sys.argv has it
        flags = [False, *(isinstance(item, str) and _is_secret_flag(item) for item in value)]
        return [_redact_value(item, secret=secret or flag) for item, flag in zip(value, flags, strict=False)]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if secret:
        _remember(str(value))
        return MASK
    if not isinstance(value, str):
        return value
    for user in _USER_OF_URL.findall(value):
        _remember(user[:-1].rpartition(":")[2])
    return redact(value)


def _is_secret_flag(text: str) -> bool:
    return text.startswith("-") and "=" not in text and is_secret_name(text)


def _redact_assigned(text: str) -> str:
    pieces: list[str] = []
    kept = start = 0
    while (match := _NAME.search(text, start)) is not None:
        start = match.end()
        name, sign = match.groups()
        if not is_secret_name(name) or (value := _VALUE.match(text, start)) is None:
            continue
        if _gives_away(name, sign, value[0]):
            quote = value[0][-1] if value[0][-1] in "\"'" else ""
            pieces += text[kept:start], f"{quote}{MASK}{quote}"
            kept = start = value.end()
    return "".join([*pieces, text[kept:]])


def _gives_away(name: str, sign: str, value: str) -> bool:
    """Whether what stands behind a secret's name is its value, rather than prose about it."""
    if value.strip("\"'") in {"", "None", "null", "True", "true", "False", "false", MASK}:
        return False
    sign = sign.strip()
    if not sign:  # only "--password x": prose has a blank behind a word too
        return name.startswith("-") and not value.startswith("-")
    if "=" in sign or sign[0] in "\"'":
        return not value.startswith("=")
    is_a_word_of_prose = name.rpartition(".")[2].isalpha() and "passw" not in name.lower()
    return not is_a_word_of_prose or _LOOKS_RANDOM.fullmatch(value) is not None
