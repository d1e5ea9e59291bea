"""Tells from a name (of a configuration's key, a variable, an option) whether its value is a secret."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

# Ends of a word too, since "dbpassword" and "clientsecret" are written in one piece.
_SECRET_WORDS = re.compile(
    r"(?:passwords?|passwd|passphrase|passcode|secrets?|credentials?|(?:api|access|private|secret|signing|ssh)keys?"
    r"|(?:auth|access|api|bearer|refresh)tokens?)$"
)
_EXACT_WORDS = frozenset(("pwd", "auth", "authorization", "cookie", "cookies", "bearer", "jwt", "dsn", "sas"))
_KINDS_OF_KEYS = frozenset(
    ("access", "account", "api", "app", "auth", "client", "deploy", "encryption", "license", "master", "private",
     "secret", "service", "session", "shared", "signing", "ssh", "storage", "subscription")
)  # fmt: skip
_KINDS_OF_TOKENS = frozenset(
    ("access", "api", "auth", "authentication", "bearer", "bot", "csrf", "deploy", "gh", "github", "gitlab", "hf",
     "hub", "id", "identity", "login", "oauth", "personal", "pypi", "refresh", "sas", "security", "service",
     "session", "slack", "user", "web", "xsrf")
)  # fmt: skip
_TOKENS_OF_TEXTS = frozenset(
    ("action", "additional", "audio", "begin", "blank", "boi", "bos", "boundary", "class", "cls", "current", "decoder",
     "dist", "distillation", "end", "eoi", "eos", "eot", "every", "fake", "first", "global", "hidden", "image", "lang",
     "language", "last", "latent", "mask", "max", "memory", "min", "new", "next", "no", "num", "obs", "observation",
     "oov", "pad", "patch", "per", "prefix", "previous", "prompt", "query", "reg", "register", "reward", "sep",
     "separator", "single", "sos", "sot", "speaker", "special", "start", "stop", "suffix", "text", "think", "time",
     "unk", "unknown", "use", "video", "vision", "vocab", "with", "word")
)  # fmt: skip
_ABOUT_A_SECRET = frozenset(
    ("bits", "bytes", "count", "dim", "dir", "directory", "enabled", "expiry", "file", "filename", "folder", "format",
     "index", "len", "length", "max", "min", "mode", "name", "num", "path", "prefix", "provider", "required", "rounds",
     "scheme", "size", "sock", "source", "timeout", "ttl", "type")
)  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret, word by word: ``api_key`` and ``hfToken`` are, ``max_tokens`` is not.

    A name that ends in a word such as ``path``, ``name`` or ``size`` tells something about a secret.
    """
    words = [word.lower() for word in _WORD.findall(name[-200:])]
    if not words or words[-1] in _ABOUT_A_SECRET:
        return False
    if any(_SECRET_WORDS.search(word) or word in _EXACT_WORDS for word in words):
        return True
    pairs = pairwise(words)
    if any(second in ("key", "keys") and first in _KINDS_OF_KEYS for first, second in pairs):
        return True
    if words[-1] == "tokens":
        return any(first in _KINDS_OF_TOKENS for first in words[:-1])
    return words[-1] == "token" and not _TOKENS_OF_TEXTS.intersection(words)
