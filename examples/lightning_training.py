"""A classifier in Lightning, watched by one callback; a logger of Lightning's own runs beside it."""

import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import stepscope
from stepscope.integrations.lightning import StepscopeCallback


class Digits(lightning.LightningModule):
    def __init__(self, lr: float = 1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 32), nn.ReLU())
        self.net.append(nn.Linear(32, 10))
        with torch.no_grad():
            self.net[3].bias[:20] = -10.0  # 20 of 32 hidden units never fire: what the report is about

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        scores = self.net(batch[0])
        self.log("val_loss", nn.functional.cross_entropy(scores, batch[1]))
        self.log("val_accuracy", (scores.argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def main(folder: str) -> None:
    lightning.seed_everything(0)
    digits = load_digits()
    images = torch.from_numpy(digits.images).float()[:, None] / 16
    data = TensorDataset(images, torch.from_numpy(digits.target))
    train, validation = torch.utils.data.random_split(data, [1500, 297])
    trainer = lightning.Trainer(
        max_epochs=3,
        gradient_clip_val=1.0,
        log_every_n_steps=1,
        logger=CSVLogger(Path(folder).parent / "lightning_logs"),
        callbacks=[StepscopeCallback(folder, sinks=["tensorboard", "local"], config="full")],
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Digits(), DataLoader(train, batch_size=100, shuffle=True), DataLoader(validation, batch_size=99))

    record = stepscope.read_run(folder)
    accuracies = ", ".join(f"{value:.2f}" for value in record.scalars("validation/accuracy").values)
    print(f"accuracy after each epoch: {accuracies}")
    print("norm of the gradients, at most:", end=" ")
    for name in ("total_norm/unclipped_gradients", "total_norm/gradients"):
        print(f"{record.scalars(name).values.max():.2f} ({name})", end="; ")
    print(*(alert.message for alert in record.alerts() if alert.name == "dead_units"), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/lightning_training")
