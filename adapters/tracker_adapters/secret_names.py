"""Tells from the name of a configuration key, a variable or an option whether its value is a secret."""

import re
from functools import lru_cache
from itertools import pairwise

# Ends of a word too, since "dbpassword" and "clientsecret" are written in one piece.
_SECRET_WORDS = re.compile(
    r"(?:passwords?|passwd|passphrase|passcode|passwort|kennwort|contrasena|mnemonic|secrets?|credentials?"
    r"|(?:api|access|private|secret|signing|ssh)keys?"
    r"|(?:auth|access|api|bearer|refresh)tokens?)$"
)
_EXACT_WORDS = frozenset(
    ("pwd", "auth", "authorization", "cookie", "cookies", "bearer", "jwt", "dsn", "sas", "otp", "totp")
)
_KINDS_OF_KEYS = frozenset(
    ("access", "account", "anthropic", "api", "app", "auth", "aws", "azure", "client", "cohere", "comet", "decryption",
     "deploy", "encryption", "gcp", "github", "gitlab", "google", "groq", "hf", "hmac", "huggingface", "kaggle",
     "license", "master", "mistral", "neptune", "openai", "private", "replicate", "secret", "service", "session",
     "shared", "signing", "slack", "ssh", "storage", "stripe", "subscription", "twilio", "webhook")
)  # fmt: skip
_KINDS_OF_PASSES = frozenset(
    ("admin", "auth", "basic", "cert", "client", "database", "db", "email", "ftp", "git", "http", "https", "imap",
     "keystore", "ldap", "login", "mail", "minio", "mongo", "mysql", "pg", "postgres", "proxy", "redis", "root",
     "smtp", "sql", "ssh", "sudo", "user", "vpn", "wifi")
)  # fmt: skip
_SECRET_PAIRS = frozenset(
    (("pass", "word"), ("pass", "wd"), ("pass", "phrase"), ("pass", "code"), ("seed", "phrase"), ("recovery", "phrase"))
)
_MAY_BE_SECRET = frozenset(("pass", "pw", "pin"))
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
    if any(_is_secret_pair(first, second) for first, second in pairwise(words)):
        return True
    if words[-1] == "tokens":
        return any(first in _KINDS_OF_TOKENS for first in words[:-1])
    return words[-1] == "token" and not _TOKENS_OF_TEXTS.intersection(words)


def may_be_secret_name(name: str) -> bool:
    """Whether this can be the name of a secret or of something else: ``pass``, ``pw``, ``pin``, and any kind of key."""
    return name.strip("-_").lower() in _MAY_BE_SECRET or is_name_of_key(name)


def is_name_of_key(name: str) -> bool:
    """Whether a name ends in the word key: ``key``, ``dataset_key``."""
    return name.rstrip("-_").lower().endswith("key") and _WORD.findall(name)[-1].lower() == "key"


def _is_secret_pair(first: str, second: str) -> bool:
    if second in ("key", "keys"):
        return first in _KINDS_OF_KEYS
    if second in ("pass", "pw"):
        return first in _KINDS_OF_PASSES
    return (first, second) in _SECRET_PAIRS
