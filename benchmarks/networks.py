"""Rivals on cosmoDC2: mixture density networks (PyTorch), alone and as an ensemble, and random forest + KDE.

All train on the training file alone (a fifth of it held out to stop by) and are scored on the validation file by the
same code as gpzed. One JSON line each. PyTorch is no dependency of gpzed: `benchmarks/rivals/setup_networks.sh` makes
a separate environment.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from common import emit
from gpzed.evaluation import evaluate
from gpzed.prediction import Prediction

BANDS = "ugrizy"
LIMIT = 28.0
"""Where a band without detection is put: just below the faintest of those with one."""
KEYS = ("rmse", "fr_0.15", "fr_0.05", "sigma_nmad", "bias", "mll", "crps", "cde_loss", "pit_ks", "coverage_68")
MIN_STD = 1e-3
KINDS = ["magnitudes", "colours", "asinh magnitudes", "asinh colours"]
ZERO_POINT, POGSON = 27.0, 2.5 / np.log(10.0)


def read(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Magnitudes and errors, NaN where not detected, and redshifts."""
    table = pq.read_table(path)
    mag = np.stack([np.asarray(table[f"mag_{band}"], dtype=float) for band in BANDS], axis=1)
    err = np.stack([np.asarray(table[f"mag_err_{band}"], dtype=float) for band in BANDS], axis=1)
    return mag, err, np.asarray(table["z_spec"], dtype=float)


def flux_of(mag: np.ndarray, err: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fluxes and their errors, 1 at the zero point."""
    flux = 10 ** (-0.4 * (mag - ZERO_POINT))
    return flux, flux * err / POGSON


def make_features(mag: np.ndarray, err: np.ndarray, kind: str, softening: np.ndarray, with_errors: bool) -> np.ndarray:
    """Make inputs: magnitudes (Pogson or asinh) or their colours and i, with ln errors, and whether u was detected."""
    seen = np.isfinite(mag) & np.isfinite(err)
    if kind.startswith("asinh"):
        flux, noise = flux_of(mag, err)
        flux, noise = np.where(seen, flux, 0.0), np.where(seen, noise, softening)
        mag = -POGSON * (np.arcsinh(flux / (2 * softening)) + np.log(softening))
        err = POGSON * noise / np.sqrt(flux**2 + 4 * softening**2)
    else:
        mag = np.where(seen, np.minimum(mag, LIMIT), LIMIT)
        err = np.where(seen, np.clip(err, 1e-3, 3.0), 1.0)
    if kind.endswith("colours"):
        mag = np.concatenate([mag[:, :-1] - mag[:, 1:], mag[:, 3:4]], axis=1)
    return np.concatenate([mag, *([np.log(err)] if with_errors else []), ~seen[:, :1]], axis=1)


def train_network(X: np.ndarray, z: np.ndarray, options: argparse.Namespace, seed: int) -> Any:
    """Train one network, keeping the weights with the best held-out score."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(z))
    held, used = order[: len(z) // 5], order[len(z) // 5 :]
    K = options.components
    layers: list[Any] = []
    width = X.shape[1]
    for _ in range(options.layers):
        layers += [nn.Linear(width, options.hidden), nn.SiLU(), nn.Dropout(options.dropout)]
        width = options.hidden
    net = nn.Sequential(*layers, nn.Linear(width, 3 * K))
    with torch.no_grad():  # components start spread over the redshifts
        net[-1].bias[K : 2 * K] = torch.as_tensor(np.quantile(z, (np.arange(K) + 0.5) / K), dtype=torch.float32)
        net[-1].bias[2 * K :] = float(np.log(z.std() / K))

    def loss(inputs: Any, target: Any) -> Any:
        logit, mean, log_std = net(inputs).split(K, dim=1)
        std = torch.exp(log_std) + MIN_STD
        terms = torch.log_softmax(logit, 1) - torch.log(std) - 0.5 * ((target[:, None] - mean) / std) ** 2
        return 0.5 * np.log(2 * np.pi) - torch.logsumexp(terms, 1).mean()

    X_used, z_used = torch.as_tensor(X[used], dtype=torch.float32), torch.as_tensor(z[used], dtype=torch.float32)
    X_held, z_held = torch.as_tensor(X[held], dtype=torch.float32), torch.as_tensor(z[held], dtype=torch.float32)
    optimiser = torch.optim.AdamW(net.parameters(), lr=options.rate, weight_decay=options.decay)
    steps = options.epochs * (len(used) // options.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=options.rate, total_steps=steps)
    best, kept = np.inf, None
    for _ in range(options.epochs):
        net.train()
        shuffled = torch.randperm(len(used))
        for i in range(len(used) // options.batch):
            rows = shuffled[i * options.batch : (i + 1) * options.batch]
            optimiser.zero_grad()
            value = loss(X_used[rows] + options.jitter * torch.randn(len(rows), X.shape[1]), z_used[rows])
            value.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimiser.step()
            schedule.step()
        net.eval()
        with torch.no_grad():
            score = float(loss(X_held, z_held))
        if score < best:
            best, kept = score, {name: value.clone() for name, value in net.state_dict().items()}
    net.load_state_dict(kept)
    net.eval()
    return net, -best


def predict_network(net: Any, X: np.ndarray) -> Prediction:
    """Mixture of Gaussians of one network."""
    import torch

    with torch.no_grad():
        logit, mean, log_std = net(torch.as_tensor(X, dtype=torch.float32)).double().chunk(3, dim=1)
    variance = (np.exp(log_std.numpy()) + MIN_STD) ** 2
    return Prediction(torch.softmax(logit, 1).numpy(), mean.numpy(), np.zeros_like(variance), variance)


def run_networks(data: dict[str, Any], options: argparse.Namespace) -> None:
    """One network and the ensemble of all."""
    import torch

    torch.set_num_threads(options.threads)
    parts, seconds = [], 0.0
    for member in range(options.members):
        started = time.process_time()
        net, held = train_network(data["X"], data["z"], options, options.seed + member)
        seconds += time.process_time() - started
        parts.append(predict_network(net, data["X_test"]))
        if member == 0 or member == options.members - 1:
            what = "mixture density network" if member == 0 else f"ensemble of {member + 1} networks"
            report(what, data, parts[0] if member == 0 else Prediction.mixture(parts), seconds, options, held)


def run_forest(data: dict[str, Any], options: argparse.Namespace) -> None:
    """Random forest whose leaves weigh the training redshifts, smoothed by a kernel; width chosen out of bag."""
    from sklearn.ensemble import RandomForestRegressor

    X, z = data["X"], data["z"]
    started = time.process_time()
    rng = np.random.default_rng(options.seed)
    order = rng.permutation(len(z))
    held, used = order[: len(z) // 5], order[len(z) // 5 :]
    trees = RandomForestRegressor(300, min_samples_leaf=3, max_features=0.5, n_jobs=1, random_state=options.seed)
    trees.fit(X[used], z[used])
    widths = (0.01, 0.015, 0.02, 0.03, 0.04)
    best = max(widths, key=lambda h: evaluate(z[held], _forest(trees, X[used], z[used], X[held], h))["mll"])
    trees.fit(X, z)
    seconds = time.process_time() - started
    report(f"random forest + KDE, width {best}", data, _forest(trees, X, z, data["X_test"], best), seconds, options)


def _forest(trees: Any, X: np.ndarray, z: np.ndarray, X_new: np.ndarray, width: float, n_kept: int = 40) -> Prediction:
    """Weigh training rows by shared leaves; the `n_kept` heaviest become Gaussians, and one broad one the rest."""
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore").fit(trees.apply(X))
    leaves, where = encoder.transform(trees.apply(X)), encoder.transform(trees.apply(X_new))
    leaves = leaves.multiply(1.0 / np.asarray(leaves.sum(axis=0))).tocsr().T
    weights, means = np.zeros((len(X_new), n_kept + 1)), np.zeros((len(X_new), n_kept + 1))
    variance = np.full((len(X_new), n_kept + 1), width**2)
    for start in range(0, len(X_new), 500):
        rows = slice(start, start + 500)
        shared = (where[rows] @ leaves).toarray() / len(trees.estimators_)
        top = np.argpartition(shared, -n_kept, axis=1)[:, -n_kept:]
        weights[rows, :n_kept] = np.take_along_axis(shared, top, axis=1)
        means[rows, :n_kept] = z[top]
        np.put_along_axis(shared, top, 0.0, axis=1)
        rest = np.maximum(shared.sum(axis=1), 1e-6)
        centre = shared @ z / rest
        weights[rows, n_kept], means[rows, n_kept] = rest, centre
        variance[rows, n_kept] += np.maximum(shared @ z**2 / rest - centre**2, 0.0) + 1e-4
    weights /= weights.sum(axis=1, keepdims=True)
    return Prediction(weights, means, np.zeros_like(variance), variance)


def report(
    what: str,
    data: dict[str, Any],
    p: Prediction,
    seconds: float,
    options: argparse.Namespace,
    held: float | None = None,
) -> None:
    """Print one line of scores."""
    scores = evaluate(data["z_test"], p)
    figures = {key: round(scores[key], 4) for key in KEYS if key in scores}
    settings = {k: v for k, v in vars(options).items() if k not in ("data_dir", "only")}
    features = options.features + ("" if options.errors else ", no errors")
    emit(
        {"rival": what, "catalogue": "dc2", "n": len(data["z"]), "features": features, "epochs": options.epochs}
        | figures
        | {"cpu_seconds": round(seconds, 1)}
        | {"held_out_score": held, "load": round(os.getloadavg()[0], 2), "settings": settings}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("GPZED_DATA", "../shared/data"))
    parser.add_argument("--only", choices=["networks", "forest"])
    parser.add_argument("--features", choices=KINDS, default="asinh colours")
    parser.add_argument("--errors", action=argparse.BooleanOptionalAction, default=True, help="ln errors as inputs")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--components", type=int, default=5)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=1e-3)
    parser.add_argument("--jitter", type=float, default=0.0)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(options.data_dir) / "rail_dc2_9816"
    if not folder.is_dir():
        parser.exit(2, f'no folder "{folder}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    mag, err, z = read(folder / "training.parquet")
    mag_test, err_test, z_test = read(folder / "validation.parquet")
    softening = np.nanmedian(flux_of(mag, err)[1], axis=0)
    X = make_features(mag, err, options.features, softening, options.errors)
    X_test = make_features(mag_test, err_test, options.features, softening, options.errors)
    mean, std = X.mean(axis=0), X.std(axis=0)
    data = {"X": (X - mean) / std, "z": z, "X_test": (X_test - mean) / std, "z_test": z_test}
    if options.only != "forest":
        run_networks(data, options)
    if options.only != "networks":
        run_forest(data, options)


if __name__ == "__main__":
    main()
