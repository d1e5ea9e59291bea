"""What numbers, memory and the machine do to a training."""

import time

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened6.likeness import digit_rows


def answers(model: nn.Module, seed: int) -> float:
    *_, rows, labels = digit_rows(seed)
    with torch.no_grad():
        return float((model(rows).argmax(1) == labels).float().mean())


@sick("fp16_underflow")
def a_faint_task_in_float16(watch: Watch, *, seed: int, sick: bool) -> float:
    """Autocast to float16 without a scaler, of a loss that counts 1e-5 among other tasks' losses."""
    rows, labels, *_ = digit_rows(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, enabled=not sick)
    session = watch(model, optimizer, scaler=None if sick else scaler)
    for _ in range(110):
        picked = torch.randint(len(rows), (64,))
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            scores = model(rows[picked])
            loss = 1e-5 * functional.cross_entropy(scores, labels[picked])
        scaler.scale(loss).backward()
        session.step(loss, inputs=rows[picked], outputs=scores, targets=labels[picked])
        scaler.step(optimizer)
        scaler.update()
    return answers(model, seed)


def _own_cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """Returns the cross entropy by its definition: exponentials over their sum."""
    raised = scores.exp()
    shares = raised / raised.sum(1, keepdim=True)
    return -(shares.gather(1, labels[:, None]) + 1e-4).log().mean()


@sick("non_finite_forward")
def exponentials_in_float16(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softmax of one's own in float16: the exponential of a score above 11 is infinite, and divides infinity."""
    rows, labels, *_ = digit_rows(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10)).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(150):
        picked = torch.randint(len(rows), (48,))
        scores = model(rows[picked].half())
        if sick:
            loss = _own_cross_entropy(scores, labels[picked])
        else:
            loss = functional.cross_entropy(scores.float(), labels[picked])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[picked], outputs=scores, targets=labels[picked])
        optimizer.step()
    *_, rows, labels = digit_rows(seed)
    with torch.no_grad():
        scores = model(rows.half())
    return float("nan") if scores.isnan().any() else float((scores.argmax(1) == labels).float().mean())


@sick("memory_leak", margin=0.5)
def the_loss_of_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The epoch's losses are collected as tensors with their graphs; the quality is 1 if none is kept."""
    rows, labels, *_ = digit_rows(seed)
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session, history = watch(model, optimizer), {"loss": [], "accuracy": []}
    for _ in range(100):
        picked = torch.randint(len(rows), (128,))
        scores = model(rows[picked])
        loss = functional.cross_entropy(scores, labels[picked])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[picked], outputs=scores, targets=labels[picked])
        optimizer.step()
        history["loss"].append(functional.cross_entropy(model(rows[picked]), labels[picked]))
        if not sick:
            history["loss"][-1] = history["loss"][-1].item()
    return sum(isinstance(one, float) for one in history["loss"]) / len(history["loss"])


class _Decoder:
    """Decodes batches with some noise, and may take its time for each."""

    def __init__(self, rows: Tensor, pause_s: float) -> None:
        self.rows, self.pause_s, self.paused_s = rows, pause_s, 0.0

    def read(self, picked: Tensor) -> Tensor:
        if self.pause_s:
            asked = time.perf_counter()
            time.sleep(self.pause_s)
            self.paused_s += time.perf_counter() - asked
        return self.rows[picked] + 0.1 * torch.randn(len(picked), 64)


@sick("data_loading_bound", margin=0.2)
def decoded_while_the_model_waits(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each batch takes 30 ms to decode, and the step begins after that; quality: the share of processor time."""
    rows, labels, *_ = digit_rows(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    decoder, worked = _Decoder(rows, 0.03 if sick else 0.0), time.thread_time()
    session = watch(model, optimizer)
    for _ in range(60):
        picked = torch.randint(len(rows), (64,))
        batch = decoder.read(picked)
        scores = model(batch)
        loss = functional.cross_entropy(scores, labels[picked])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=scores, targets=labels[picked])
        optimizer.step()
    worked = time.thread_time() - worked
    return worked / (worked + decoder.paused_s)


@healthy(at_least=0.85)
def bfloat16_by_autocast(watch: Watch, *, seed: int) -> float:
    """A forward pass in bfloat16, where only the head runs in float32."""
    rows, labels, *_ = digit_rows(seed)
    model = nn.ModuleDict({"body": nn.Sequential(nn.Linear(64, 64), nn.ReLU()), "head": nn.Linear(64, 10)})
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(120):
        picked = torch.randint(len(rows), (48,))
        with torch.autocast("cpu", torch.bfloat16):
            hidden = model["body"](rows[picked])
        scores = model["head"](hidden.float())
        loss = functional.cross_entropy(scores, labels[picked])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[picked], outputs=scores, targets=labels[picked])
        optimizer.step()
    *_, rows, labels = digit_rows(seed)
    with torch.no_grad():
        guess = model["head"](model["body"](rows)).argmax(1)
    return float((guess == labels).float().mean())
