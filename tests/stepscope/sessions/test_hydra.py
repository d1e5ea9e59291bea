"""Configurations of Hydra and OmegaConf: recorded with the run, and naming what is measured."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

import stepscope

pytest.importorskip("hydra", reason="needs Hydra: pip install hydra-core")

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.utils import instantiate
from omegaconf import MISSING, OmegaConf

PAGE = Path(__file__).parents[3] / "docs" / "frameworks" / "hydra.md"
SETTINGS = """
lr: 0.1
name: run with lr ${lr}
layers: [4, '${lr}', {of: '???'}]
run:
  _target_: stepscope.open_run
  path: ???
  sinks: []
  tags: [tuned]
watch:
  _target_: stepscope.watch
  config: {preset: economy, activations: ['0'], schedule: {every: 3}}
  updates: true
"""


@dataclass
class Optimizer:
    """A structured configuration, whose types Hydra checks."""

    lr: float = 0.1
    betas: list[float] = field(default_factory=lambda: [0.9, 0.99])


@dataclass
class Settings:
    folder: str = MISSING
    optimizer: Optimizer = field(default_factory=Optimizer)
    twice: str = "${optimizer.lr}"


def composed(folder, *overrides):
    (folder / "settings.yaml").write_text(SETTINGS)
    with initialize_config_dir(config_dir=str(folder), version_base="1.3"):
        return compose("settings", overrides=list(overrides))


def train(model, optimizer, steps=7):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 2)).square().mean().backward()
        optimizer.step()


def test_run_and_session_are_made_by_instantiate(tmp_path):
    settings = composed(tmp_path, f"run.path={tmp_path / 'run'}", "lr=0.5")
    model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)

    with (
        instantiate(settings.run, _partial_=True)(config=settings) as run,
        instantiate(settings.watch, model=model, optimizer=optimizer, run=run) as session,
    ):
        train(model, optimizer)

    assert session.config.schedule == stepscope.Schedule(every=3)
    assert session.config.max_overhead == 0.02  # of the preset
    assert session.config.activations == ["0"]
    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("loss").steps.tolist() == list(range(7))
    assert record.scalars("update_ratio/0.weight").steps.tolist() == [0, 3, 6]
    assert record.info.tags == ("tuned",)


def test_the_file_on_the_page_watches_and_is_what_its_code_makes():
    text = PAGE.read_text(encoding="utf-8")
    (yaml,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (made,) = re.findall(r"^settings = (OmegaConf\.create\(.*?^\))", text, re.MULTILINE | re.DOTALL)
    settings = OmegaConf.create(yaml)
    assert settings == eval(made)
    model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)
    with instantiate(settings.watch, model=model, optimizer=optimizer) as session:
        train(model, optimizer)
    assert session.config.updates
    assert session.config.schedule == stepscope.Schedule(every=5)


def test_the_configuration_is_recorded_with_its_interpolations_resolved(tmp_path):
    settings = composed(tmp_path, f"run.path={tmp_path / 'run'}")
    with stepscope.open_run(tmp_path / "run", sinks=[], config=settings) as run:
        assert run.info.config["name"] == "run with lr 0.1"
        assert run.info.config["layers"] == [4, 0.1, {"of": "???"}]
    assert stepscope.read_run(tmp_path / "run").info.config == run.info.config


def test_a_structured_configuration_and_a_part_in_a_dict_are_recorded(tmp_path):
    ConfigStore.instance().store(name="structured", node=Settings)
    with initialize_config_dir(config_dir=str(tmp_path), version_base="1.3"):
        settings = compose("structured", overrides=["optimizer.lr=0.01"])
    with stepscope.open_run(tmp_path / "run", sinks=[], config={"seed": 0, "all": settings}) as run:
        optimizer = {"lr": 0.01, "betas": [0.9, 0.99]}
        assert run.info.config == {
            "seed": 0,
            "all": {"folder": "???", "optimizer": optimizer, "twice": "0.01"},
        }


def test_a_configuration_that_leads_nowhere_is_refused(tmp_path):
    with pytest.raises(stepscope.ArtifactError, match=r"config cannot be resolved \(Interpolation key 'gone' not fou"):
        stepscope.open_run(tmp_path / "run", config=OmegaConf.create({"lr": "${gone}"}))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"preset": "fast"}, "preset is 'fast'; expected one of economy"),
        ({"lr": 0.1}, "DebugConfig has no field 'lr'"),
        ({"schedule": {"each": 3}}, "Schedule has no field 'each'"),
        ({"schedule": {"every": 0}}, "schedule: every is 0"),
    ],
)
def test_a_mapping_of_wrong_fields_is_refused(config, message):
    model = torch.nn.Linear(2, 1)
    for given in (config, OmegaConf.create(config)):
        with pytest.raises(stepscope.ConfigError, match=message):
            stepscope.watch(model, torch.optim.SGD(model.parameters(), lr=0.1), config=given)
