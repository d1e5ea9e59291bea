"""Facts and findings as the text that a run stores, and back, also from another version's run or a damaged one."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.facts import Facts

MAX_BYTES = 256 * 1024
"""The longest text; beyond it parameters and layers of which there is nothing to tell are left out first."""
_MOST_FINDINGS = 200
_MOST_TEXT = 500
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_Kind = TypeVar("_Kind")


def encode(facts: Facts, findings: Iterable[Finding] = ()) -> str:
    """Returns them as JSON of at most 256 KiB; NaN and infinities become ``"nan"``, ``"inf"`` and ``"-inf"``."""
    kept = sorted(findings, key=lambda finding: (not finding.is_problem, finding.step))[:_MOST_FINDINGS]
    content = {
        "facts": msgspec.to_builtins(facts, enc_hook=str),
        "findings": [{key: getattr(one, key) for key in one.__dataclass_fields__} for one in kept],
    }
    for shrink in (_nothing, _without_the_ordinary, _without_lists, _without_facts):
        shrink(content)
        text = msgspec.json.encode(_storable(content), enc_hook=str)
        if len(text) <= MAX_BYTES:
            return text.decode()
    return "{}"


def decode(text: str) -> tuple[Facts, tuple[Finding, ...]]:
    """Returns what ``encode`` has stored; fields that are missing, unknown or of another type are left out.

    A finding is left out where a field is missing. What is no JSON of an object is taken as empty.
    """
    try:
        content = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Facts(), ()
    if not isinstance(content, dict):
        return Facts(), ()
    found = content.get("findings")
    findings = [_finding(one) for one in found[:_MOST_FINDINGS]] if isinstance(found, list) else []
    return _tolerant(Facts, content.get("facts")), tuple(one for one in findings if one is not None)


def _storable(value: Any) -> Any:
    """JSON has no NaN and no infinities, and UTF-8 no lone surrogates."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return value[:_MOST_TEXT].encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {str(key): _storable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(item) for item in value]
    return value


def _nothing(content: dict[str, Any]) -> None:
    pass


def _without_the_ordinary(content: dict[str, Any]) -> None:
    facts = content["facts"]
    facts["parameters"] = [one for one in facts.get("parameters", []) if one.get("role")][:_MOST_FINDINGS]
    facts["layers"] = facts.get("layers", [])[:_MOST_FINDINGS]
    facts["groups"] = facts.get("groups", [])[:_MOST_FINDINGS]


def _without_lists(content: dict[str, Any]) -> None:
    for name in ("parameters", "layers", "groups", "probes"):
        content["facts"].pop(name, None)


def _without_facts(content: dict[str, Any]) -> None:
    content["facts"] = {}


def _tolerant(kind: type[_Kind], found: Any) -> _Kind:
    """Returns a struct with those of the fields that fit."""
    if not isinstance(found, dict):
        return kind()
    values = {}
    for field in msgspec.structs.fields(kind):  # type: ignore[arg-type]
        if field.name not in found:
            continue
        value = found[field.name]
        try:
            values[field.name] = _converter(field.type)(value)
        except (msgspec.ValidationError, TypeError, ValueError, RecursionError):
            continue
    return kind(**values)


def _converter(kind: Any) -> Callable[[Any], Any]:
    struct = next((one for one in (kind, *get_args(kind)) if isinstance(one, type) and _is_struct(one)), None)
    if struct is None:
        return lambda value: msgspec.convert(_restored(value), kind, strict=False)
    if get_origin(kind) is tuple:
        return lambda value: tuple(_tolerant(struct, one) for one in value if _has_name(struct, one))
    return lambda value: None if value is None else _tolerant(struct, value)


def _is_struct(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct)


def _has_name(struct: type, found: Any) -> bool:
    """Whether an item of a list has what every item must have."""
    required = [field.name for field in msgspec.structs.fields(struct) if field.required]
    return isinstance(found, dict) and all(isinstance(found.get(name), str) for name in required)


def _restored(value: Any) -> Any:
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: _restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_restored(item) for item in value]
    return value


def _finding(found: Any) -> Finding | None:
    if not isinstance(found, dict):
        return None
    numbers = {key: _restored(found.get(key)) for key in ("value", "threshold")}
    try:
        return msgspec.convert({**found, **numbers}, Finding)
    except (msgspec.ValidationError, TypeError):
        return None
