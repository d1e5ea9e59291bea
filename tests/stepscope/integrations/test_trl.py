"""Trainers of TRL, each with a tiny random Llama that reads Python's own sources."""

import copy
import textwrap
from pathlib import Path

import pytest
import torch

import stepscope

transformers = pytest.importorskip("transformers", reason="needs Transformers: pip install 'stepscope[transformers]'")
trl = pytest.importorskip("trl", reason="needs TRL: pip install trl")

from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402

import stepscope.integrations.transformers  # makes report_to="stepscope" known  # noqa: E402

pytestmark = pytest.mark.framework
STEPS = 3


class Words:
    """Lines of a source file, and a tokenizer and a network that know their words."""

    def __init__(self):
        source = Path(textwrap.__file__).read_text()
        self.lines = [line for line in source.splitlines() if len(line.split()) > 3][:32]
        words = ["<end>", "<unknown>", *sorted({word for line in self.lines for word in line.split()})]
        known = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unknown>"))
        known.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        marks = {"pad_token": "<end>", "eos_token": "<end>", "unk_token": "<unknown>"}
        self.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=known, **marks)
        self.shape = transformers.LlamaConfig(
            vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, eos_token_id=0, num_labels=1,
        )  # fmt: skip

    def network(self, kind=transformers.LlamaForCausalLM):
        transformers.set_seed(0)
        return kind(self.shape)

    def text(self):
        return Dataset.from_dict({"text": self.lines})

    def prompts(self):
        return Dataset.from_dict({"prompt": [" ".join(line.split()[:2]) for line in self.lines]})

    def preferences(self):
        return Dataset.from_dict({"chosen": self.lines, "rejected": [line[::-1] for line in self.lines]})

    def answers(self):
        ends = [" ".join(line.split()[2:]) for line in self.lines]
        return self.prompts().add_column("chosen", ends).add_column("rejected", [end[::-1] for end in ends])


def sft(words, settings):
    arguments = trl.SFTConfig(max_length=16, **settings)
    return trl.SFTTrainer(words.network(), arguments, train_dataset=words.text(), processing_class=words.tokenizer)


def dpo(words, settings):
    network, arguments = words.network(), trl.DPOConfig(max_length=24, **settings)
    return trl.DPOTrainer(
        network, copy.deepcopy(network), arguments, train_dataset=words.answers(), processing_class=words.tokenizer
    )


def reward(words, settings):
    network = words.network(transformers.LlamaForSequenceClassification)
    arguments = trl.RewardConfig(max_length=24, **settings)
    return trl.RewardTrainer(network, arguments, train_dataset=words.preferences(), processing_class=words.tokenizer)


def grpo(words, settings):
    arguments = trl.GRPOConfig(num_generations=4, max_completion_length=6, **settings)
    return trl.GRPOTrainer(
        words.network(), different_words, arguments, train_dataset=words.prompts(), processing_class=words.tokenizer
    )


def different_words(completions, **given):
    return [float(len(set(completion.split()))) for completion in completions]


def trained(make, folder, tracker):
    trainer = make(
        Words(),
        {
            "output_dir": str(folder / "out"), "use_cpu": True, "bf16": False, "disable_tqdm": True, "seed": 0,
            "save_strategy": "no", "max_steps": STEPS, "logging_steps": 1, "per_device_train_batch_size": 4,
            "learning_rate": 0.01, "report_to": tracker,
        },
    )  # fmt: skip
    trainer.train()
    return trainer.model.state_dict(), [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize(
    ("make", "metric"),
    [
        (sft, "mean_token_accuracy"),
        (dpo, "rewards/margins"),
        (reward, "margin"),
        pytest.param(grpo, "reward", marks=pytest.mark.slow),
    ],
)
def test_a_trainer_is_watched_by_its_name_and_trains_bit_identically(tmp_path, monkeypatch, make, metric):
    monkeypatch.setenv("STEPSCOPE_RUN", str(tmp_path / "run"))
    plain, losses = trained(make, tmp_path, "none")
    watched, logged = trained(make, tmp_path, "stepscope")

    assert logged == losses
    assert all(torch.equal(plain[name], value) for name, value in watched.items())
    with stepscope.read_run(tmp_path / "run") as record:
        assert record.info.status == "finished"
        assert record.scalars("loss").values == pytest.approx(record.scalars("logged/loss").values, rel=1e-3, abs=1e-6)
        assert len(record.scalars(metric)) == STEPS
        assert len(record.scalars("total_norm/gradients")) == STEPS
