"""Write the logits of a pretrained ResNet-152 on ImageNet's 50,000 validation images.

    python make_logits.py IMAGES --out imagenet_resnet152.npz

IMAGES is the folder of the validation images, one folder per class named by its WordNet id
(n01440764, …), in which torchvision's class order is the alphabetical one. Written is an .npz with
`logits` (float16, 50,000 × 1000) and `labels` (int16), the file that `fedcover reproduce imagenet
--logits` reads.

Needs PyTorch and torchvision; a GPU makes it minutes instead of hours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models

CLASSES = 1000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("images", type=Path, help="folder of the validation images")
    parser.add_argument("--out", type=Path, default=Path("imagenet_resnet152.npz"))
    parser.add_argument("--model", default="resnet152", help="a classifier of torchvision")
    parser.add_argument("--weights", default="IMAGENET1K_V1", help="its weights, by name")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--workers", type=int, default=8, help="processes that read images")
    return parser.parse_args()


@torch.inference_mode()
def outputs(
    model: nn.Module, loader: DataLoader[tuple[torch.Tensor, torch.Tensor]], device: torch.device
) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, C) and labels (n,) of all images, in the order of the folder."""
    logits, labels = [], []
    for k, (images, y) in enumerate(loader):
        logits.append(model(images.to(device)).float().cpu().numpy())
        labels.append(y.numpy())
        if k % 20 == 0:
            print(f"batch {k + 1} of {len(loader)}", flush=True)
    return np.concatenate(logits), np.concatenate(labels)


def main() -> None:
    given = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weights = models.get_model_weights(given.model)[given.weights]
    data = datasets.ImageFolder(str(given.images), transform=weights.transforms())
    if len(data.classes) != CLASSES:
        raise SystemExit(f"{given.images} has {len(data.classes)} class folders, not {CLASSES}")
    loader = DataLoader(data, batch_size=given.batch, num_workers=given.workers)
    model = models.get_model(given.model, weights=weights).to(device).eval()
    logits, labels = outputs(model, loader, device)
    right = (logits.argmax(axis=1) == labels).mean()
    small = np.float16 if np.abs(logits).max() < 6e4 else np.float32  # float16 ends at 65504
    np.savez_compressed(given.out, logits=logits.astype(small), labels=labels.astype(np.int16))
    print(f"{given.out}: {len(labels)} images, top-1 accuracy {100 * right:.2f} %")


if __name__ == "__main__":
    main()
