"""The page about detectors lists all rules as they are, and its examples run."""

import re
from pathlib import Path

import pytest
import torch

from debuggers.detectors import (
    NonFiniteLoss,
    Overflow,
    Underflow,
    activation_detectors,
    gradient_detectors,
    total_detectors,
)
from debuggers.detectors.layers import VarianceBounds, layer_detectors
from debuggers.detectors.signals import signal_detectors

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "detectors.md").read_text(encoding="utf-8")
HOW_TO_WRITE_ONE = (DOCS / "extending" / "write_a_detector.md").read_text(encoding="utf-8")
GROUPS = [gradient_detectors(), activation_detectors(), total_detectors()]
RULES = [
    *(rule for group in GROUPS for rule in group._detectors),
    *(NonFiniteLoss(), Underflow(), Overflow(), VarianceBounds()),
    *layer_detectors(),
    *signal_detectors(),
]
FOREIGN = {"SimilarAcrossRuns", "NLPSequenceRatio", "FeatureImportanceOverweight", "TreeDepth", "CreateXgboostReport"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_rule_is_listed_as_it_is(rule):
    needs = rule.signals | rule.context if hasattr(rule, "signals") else rule.statistics
    formula = rule.rule.replace("|", "\\|")
    row = f"| `{type(rule).__name__}` | `{rule.kind}` | {rule.level} | {formula} | {', '.join(sorted(needs))} |"
    assert row in PAGE.splitlines()


def test_no_other_rule_is_listed():
    listed = re.findall(r"^\| `(\w+)` \| `\w+` \| (?:info|warning|error) \|", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(type(rule).__name__ for rule in RULES)


def test_each_of_the_21_rules_of_sagemaker_debugger_has_ours_beside_it():
    section = PAGE.partition("## For users of SageMaker Debugger")[2]
    rows = re.findall(r"^\| (\w+) \| (.+) \|$", section, re.MULTILINE)
    assert len(rows) == 21
    kinds = {rule.kind for rule in RULES}
    for name, ours in rows:
        named = set(re.findall(r"`(\w+)`", ours))
        assert (not named) if name in FOREIGN else (named and named <= kinds), name


def test_the_examples_print_their_findings(capsys):
    (code,), (actions,) = (re.findall(r"```python\n(.*?)```", page, re.DOTALL) for page in (HOW_TO_WRITE_ONE, PAGE))
    torch.manual_seed(0)
    exec(compile(code, "write_a_detector.md", "exec"), {})
    told = capsys.readouterr().out
    assert re.fullmatch(r"loss: the loss [\d.e+]+ is above 5 at 3 observed steps from 0 to 2\n", told), told
    actions_of = {}
    exec(compile(actions, "detectors.md", "exec"), actions_of)
    assert actions_of["step"] == 3
    assert "3 loss: NaN or infinite at step 3" in capsys.readouterr().out
