"""A script with W&B's calls, of which one line was changed: the import.

python examples/from_wandb.py runs/from_wandb
"""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits

import stepscope
from stepscope.compat import wandb

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/from_wandb")
inputs, targets = (torch.tensor(values) for values in load_digits(return_X_y=True))
inputs = inputs.float() / 16

torch.manual_seed(0)
run = wandb.init(dir=folder.parent, name=folder.name, config={"lr": 0.1, "batch_size": 64})
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
wandb.watch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=wandb.config.lr)
for _ in range(200):
    rows = torch.randint(len(inputs), (wandb.config.batch_size,))
    optimizer.zero_grad()
    outputs = model(inputs[rows])
    loss = torch.nn.functional.cross_entropy(outputs, targets[rows])
    loss.backward()
    optimizer.step()
    wandb.log({"train/loss": loss, "train/accuracy": (outputs.argmax(1) == targets[rows]).float().mean()})
wandb.log({"digit": wandb.Image(inputs[0].reshape(8, 8).numpy(), caption=str(int(targets[0])))})
wandb.finish()

# What W&B's own calls do not give: every gradient, and a verdict.
with stepscope.read_run(run.stepscope_run.path) as record:
    print(f"loss {record.scalars('train/loss').values[-1]:.3f}")
    print(f"norm of all gradients at the last step {record.scalars('total_norm/gradients').values[-1]:.3f}")
    print(record.texts("stepscope/report")[-1].text.splitlines()[0])
