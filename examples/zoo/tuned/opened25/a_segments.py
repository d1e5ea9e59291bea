"""Segmentation of digits on canvases: heads, maps, norms and checkpoints that do not fit."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened25.a_shelf import mean_overlap, scattered


class _Unet(nn.Module):
    """Two levels; the encoder may be recomputed in the backward pass to save memory."""

    def __init__(self, outputs: int = 3, recomputed: bool = False, reentrant: bool = False) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.Conv2d(10, 10, 3, padding=1))
        self.middle = nn.Sequential(nn.Conv2d(10, 20, 3, padding=1), nn.ReLU(), nn.Conv2d(20, 20, 3, padding=1))
        self.up = nn.ConvTranspose2d(20, 10, 2, stride=2)
        self.decoder = nn.Sequential(nn.Conv2d(20, 12, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(12, outputs, 1)
        self._recomputed, self._reentrant = recomputed, reentrant

    def forward(self, canvases: torch.Tensor) -> torch.Tensor:
        if self._recomputed and self.training:
            found = checkpoint(self.encoder, canvases, use_reentrant=self._reentrant)
        else:
            found = self.encoder(canvases)
        found = functional.relu(found)
        deep = functional.relu(self.middle(functional.max_pool2d(found, 2)))
        return self.head(self.decoder(torch.cat([self.up(deep), found], 1)))


@sick("wrong_output_or_loss", margin=0.05)
def shares_of_each_pixel_under_cross_entropy(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softmax over channels ends the net, and ``CrossEntropyLoss`` takes another one; the twin puts out scores."""
    train, test = scattered(seed)
    model = nn.Sequential(_Unet(), nn.Softmax(1)) if sick else nn.Sequential(_Unet())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(9):
        for canvases, maps, _ in DataLoader(train, 24, shuffle=True):
            outputs = model(canvases)
            loss = criterion(outputs, maps)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=canvases, outputs=outputs, targets=maps)
            optimizer.step()
    with torch.no_grad():
        return mean_overlap(model(test.tensors[0]), test.tensors[1])


@sick("single_class_labels", margin=0.1)
def maps_read_as_if_they_were_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ToTensor`` divides maps of classes by 255 as it does pictures, and ``long()`` makes all of them 0.

    The twin keeps the numbers that the file holds.
    """
    train, test = scattered(seed)
    model = _Unet()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for canvases, file, _ in DataLoader(train, 24, shuffle=True):
            maps = (file / 255).long() if sick else file
            outputs = model(canvases)
            loss = functional.cross_entropy(outputs, maps)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=canvases, outputs=outputs, targets=maps)
            optimizer.step()
    with torch.no_grad():
        return mean_overlap(model(test.tensors[0]), test.tensors[1])


@sick("detached_parameters", margin=0.03)
def an_encoder_recomputed_from_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """A reentrant checkpoint whose input needs no gradient gives none to the encoder; the twin's is not reentrant."""
    train, test = scattered(seed)
    model = _Unet(recomputed=True, reentrant=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        model.train()
        for canvases, maps, _ in DataLoader(train, 24, shuffle=True):
            outputs = model(canvases)
            loss = functional.cross_entropy(outputs, maps)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=canvases, outputs=outputs, targets=maps)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return mean_overlap(model(test.tensors[0]), test.tensors[1])


@sick("class_imbalance", margin=0.05)
def a_speck_on_every_scan(watch: Watch, *, seed: int, sick: bool) -> float:
    """Only a spot of 2x2 pixels of 144 is the lesion, and all pixels count alike; the twin weighs it. Mean recall."""
    (train, test) = scattered(seed)
    random = torch.Generator().manual_seed(seed)

    def scanned(corners: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tissue, spots = torch.randn(len(corners), 12, 12, generator=random), torch.zeros(len(corners), 12, 12)
        for spot, (top, left) in zip(spots, corners.int().tolist(), strict=True):
            spot[top + 3 : top + 5, left + 3 : left + 5] = 1
        return (tissue + 1.3 * spots)[:, None], spots

    scans, spots = scanned(train.tensors[2])
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(1.0 if sick else 35.0))
    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(len(scans)).split(32):
            outputs = model(scans[rows])[:, 0]
            loss = criterion(outputs, spots[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=scans[rows], outputs=outputs, targets=spots[rows])
            optimizer.step()
    scans, spots = scanned(test.tensors[2])
    with torch.no_grad():
        found = model(scans)[:, 0] > 0
    return ((found[spots == 1].float().mean() + (~found[spots == 0]).float().mean()) / 2).item()


@sick("frozen_parameters", margin=0.03)
def all_but_the_head_by_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """Only what is called ``head`` learns, though just the encoder was trained before, and the decoder is as drawn.

    The twin freezes the encoder alone.
    """
    train, test = scattered(seed)
    model = _Unet()
    guess = nn.Conv2d(10, 1, 1)
    before = torch.optim.Adam([*model.encoder.parameters(), *guess.parameters()], lr=5e-3)
    for canvases, maps, _ in DataLoader(train, 32, shuffle=True):
        ink = guess(functional.relu(model.encoder(canvases)))[:, 0]
        before.zero_grad()
        functional.binary_cross_entropy_with_logits(ink, (maps > 0).float()).backward()
        before.step()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "head" in name if sick else not name.startswith("encoder")
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for canvases, maps, _ in DataLoader(train, 24, shuffle=True):
            outputs = model(canvases)
            loss = functional.cross_entropy(outputs, maps)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=canvases, outputs=outputs, targets=maps)
            optimizer.step()
    with torch.no_grad():
        return mean_overlap(model(test.tensors[0]), test.tensors[1])
