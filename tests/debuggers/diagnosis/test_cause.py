import re
from pathlib import Path

from debuggers.diagnosis.cause import TITLES, Cause

PAGE = Path(__file__).parents[3] / "docs" / "diagnosis.md"


def test_the_page_lists_each_cause_with_its_title():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {code: title.strip() for code, title in rows if code in TITLES} == dict(TITLES)


def test_a_cause_tells_itself_in_a_sentence_and_as_plain_values():
    cause = Cause(code="no_update", confidence=0.954, since_step=3, where=("fc1.weight",), evidence=("unchanged",))
    assert str(cause) == "steps change no weights, since step 3 (no_update, 95%)"
    assert cause.to_dict()["title"] == "steps change no weights"
    assert cause.to_dict()["where"] == ("fc1.weight",)
