"""A tiny GPT-2 with random weights reads Python's own sources, watched by ``report_to="stepscope"``; no downloads."""

import os
import sys
import sysconfig
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import stepscope
import stepscope.integrations.transformers  # makes report_to="stepscope" known

LENGTH = 32


class Sources(torch.utils.data.Dataset):
    """Pieces of the standard library's text, as bytes."""

    def __init__(self, names: tuple[str, ...]):
        folder = Path(sysconfig.get_path("stdlib"))
        self.bytes = torch.tensor(list(b"".join((folder / name).read_bytes() for name in names)))

    def __len__(self):
        return len(self.bytes) // LENGTH

    def __getitem__(self, index):
        piece = self.bytes[LENGTH * index : LENGTH * (index + 1)]
        return {"input_ids": piece, "labels": piece}


def main(folder: str) -> None:
    os.environ["STEPSCOPE_RUN"] = folder
    torch.manual_seed(0)
    shape = GPT2Config(
        vocab_size=256, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    arguments = TrainingArguments(
        output_dir=str(Path(folder).parent / "checkpoints"),
        max_steps=20,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=3e-3,
        logging_steps=5,
        eval_strategy="steps",
        eval_steps=10,
        save_strategy="no",
        report_to="stepscope",
        disable_tqdm=True,
    )
    data, held_out = Sources(("textwrap.py", "argparse.py")), Sources(("reprlib.py",))
    Trainer(GPT2LMHeadModel(shape), arguments, train_dataset=data, eval_dataset=held_out).train()

    record = stepscope.read_run(folder)
    losses = record.scalars("loss").values
    print(f"loss of the first and the last of {len(losses)} steps: {losses[0]:.2f}, {losses[-1]:.2f}")
    print("loss of the evaluations:", ", ".join(f"{value:.2f}" for value in record.scalars("validation/loss").values))
    print("parameters:", sum(one.name.startswith("gradient_norm/") for one in record.names()))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/transformers_tiny")
