"""gpzed beside an ensemble of mixture density networks (PyTorch), boosting and a random forest, on the same rows.

    .venv-networks/bin/python benchmarks/networks.py --rows 300 1000 --seeds 0 1 2 > docs/results/networks.jsonl

Each method trains on the same random rows of a training file, with its defaults, and is scored on the same test rows by
the same code. One JSON line for every catalogue, number of rows, seed and method; at the end of each catalogue and
number, a line with the paired differences to gpzed and their standard errors: over resamples of the test rows, and over
seeds. Rivals get the asinh colours, a magnitude, the logarithms of the errors, and marks for gaps. PyTorch is
no dependency of gpzed: `benchmarks/rivals/setup_networks.sh` makes a separate environment.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from catalogues import CATALOGUES, ROOT
from common import emit
from gpzed.catalog import Catalog, extract_photometry, read_catalog
from gpzed.evaluation import evaluate
from gpzed.evaluation.metrics import METRICS, per_object_values
from gpzed.features import FeatureConfig, fit_transformer
from gpzed.prediction import Prediction
from gpzed.workflows import train

TASK_SET = "pzdc_replica/pz_challenge_taskset_1_flow_{}_10yr"
KEYS = ("mll", "crps", "cde_loss", "fr_0.15", "fr_0.05", "sigma_nmad", "rmse")
POINT_KEYS = ("fr_0.15", "fr_0.05", "sigma_nmad", "rmse")
MIN_STD, MAX_LOG_STD, FAR = 1e-3, 2.0, 5.0
MEMBERS, LAYERS, HIDDEN, GAUSSIANS, DROPOUT, RATE, DECAY = 5, 3, 192, 8, 0.05, 2e-3, 1e-3
RESAMPLES = 200


def tables(folder: Path, name: str, n_test: int) -> tuple[Catalog, Catalog]:
    """Rows to train on, and at most `n_test` rows to be judged by."""
    if name == "taskset1":
        training, test, truth = (
            read_catalog(folder / f"{TASK_SET.format(k)}.parquet") for k in ("training", "test", "truth")
        )
        rows = [_renamed(training, training.floats("redshift")), _renamed(test, truth.floats("redshift"))]
    else:
        files, own_test = CATALOGUES[name]
        parts = [read_catalog(folder / f"{file}.parquet") for file in files]
        table = Catalog({c: np.concatenate([np.asarray(p[c]) for p in parts]) for c in parts[0].names})
        kept = np.random.default_rng(0).random(len(table)) < 0.7
        other = None if own_test is None else read_catalog(folder / f"{own_test}.parquet")
        rows = [table.take(kept), table.take(~kept)] if other is None else [table, other]
    training, test = (_usable(table) for table in rows)
    return training, test.take(np.random.default_rng(1).permutation(len(test))[:n_test])


def _renamed(table: Catalog, z: np.ndarray) -> Catalog:
    return Catalog({**{name: table[name] for name in table.names if name.startswith("mag_")}, "z_spec": z})


def _usable(table: Catalog) -> Catalog:
    """Rows with a redshift above 0.002 and a measured band."""
    bands = [name for name in table.names if name.startswith("mag_") and "err" not in name]
    measured = np.isfinite(np.stack([table.floats(name) for name in bands])).any(axis=0)
    return table.take(measured & (table.floats("z_spec") > 0.002))


def features(model: Any, training: Catalog, test: Catalog) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs of the rivals: standardised colours, a magnitude, ln errors and marks of gaps."""
    photometry = [extract_photometry(table, model.schema, model.config.sentinels) for table in (training, test)]
    transformer = fit_transformer(photometry[0], FeatureConfig(errors="inputs"))
    return rival_inputs(*(transformer.transform(part).X for part in photometry))


def rival_inputs(training: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same from magnitudes and ln errors, NaN where there is none."""
    n, b = len(training), training.shape[1] // 2
    X = np.concatenate([training, test])
    gaps = np.isnan(X[:, :b])
    mean = np.nanmean(X[:n], axis=0)
    offset = np.nanmean(np.where(gaps, np.nan, X[:, :b] - mean[:b]), axis=1, keepdims=True)
    mag = np.where(gaps, mean[:b] + offset, X[:, :b])
    ln_err = np.where(np.isnan(X[:, b:]), mean[b:], X[:, b:])
    marks = gaps[:, gaps[:n].any(axis=0)]
    F = np.concatenate([mag[:, :-1] - mag[:, 1:], mag[:, [b // 2]], ln_err, marks], axis=1)
    F = np.clip((F - F[:n].mean(axis=0)) / (F[:n].std(axis=0) + 1e-9), -FAR, FAR)
    return F[:n], F[n:]


def networks(X: np.ndarray, z: np.ndarray, X_test: np.ndarray, seed: int) -> Prediction:
    """Ensemble of mixture density networks, stopped by a fifth of held-out rows, another one for each."""
    parts = [_network(X, z, X_test, 100 * seed + member) for member in range(MEMBERS)]
    return quoted(Prediction.mixture(parts))


def quoted(p: Prediction) -> Prediction:
    """Return densities cut at zero, and quoted by the redshift of least expected loss, as those of gpzed are."""
    return p.changed(lower=0.0, point="best")


def _network(X: np.ndarray, z: np.ndarray, X_test: np.ndarray, seed: int) -> Prediction:
    import torch
    from torch import nn

    torch.manual_seed(seed)
    order = np.random.default_rng(seed).permutation(len(z))
    held, used = order[: len(z) // 5], order[len(z) // 5 :]
    n_epochs, batch = (60, 128) if len(z) > 2000 else (100, 64 if len(z) > 600 else 32)
    layers: list[Any] = []
    width, K = X.shape[1], GAUSSIANS
    for _ in range(LAYERS):
        layers += [nn.Linear(width, HIDDEN), nn.SiLU(), nn.Dropout(DROPOUT)]
        width = HIDDEN
    net = nn.Sequential(*layers, nn.Linear(width, 3 * K))
    with torch.no_grad():  # components start spread over the redshifts
        net[-1].bias[K : 2 * K] = torch.as_tensor(np.quantile(z, (np.arange(K) + 0.5) / K), dtype=torch.float32)
        net[-1].bias[2 * K :] = float(np.log(z.std() / K))

    def split(inputs: Any) -> tuple[Any, Any, Any]:
        logit, mean, log_std = net(inputs).split(K, dim=1)
        return torch.log_softmax(logit, 1), mean, torch.exp(torch.clamp(log_std, max=MAX_LOG_STD)) + MIN_STD

    def loss(inputs: Any, target: Any) -> Any:
        log_weight, mean, std = split(inputs)
        return -torch.logsumexp(log_weight - torch.log(std) - 0.5 * ((target[:, None] - mean) / std) ** 2, 1).mean()

    X_used, z_used = (torch.as_tensor(a[used], dtype=torch.float32) for a in (X, z))
    X_held, z_held = (torch.as_tensor(a[held], dtype=torch.float32) for a in (X, z))
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    n_batches = len(used) // batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=RATE, total_steps=n_epochs * n_batches)
    best, kept = np.inf, None
    for _ in range(n_epochs):
        net.train()
        shuffled = torch.randperm(len(used))
        for i in range(n_batches):
            rows = shuffled[i * batch : (i + 1) * batch]
            optimiser.zero_grad()
            loss(X_used[rows], z_used[rows]).backward()
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
    with torch.no_grad():
        log_weight, mean, std = (part.double().numpy() for part in split(torch.as_tensor(X_test, dtype=torch.float32)))
    weights = np.exp(log_weight)
    return Prediction(weights / weights.sum(axis=1, keepdims=True), mean, np.zeros_like(std), std**2)


def boosting(X: np.ndarray, z: np.ndarray, X_test: np.ndarray, seed: int) -> Prediction:
    """Boosted trees, for point estimates; depth and number chosen on a fifth of the rows. One width for all objects."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    held = np.random.default_rng(seed).random(len(z)) < 0.2
    options = [{"max_leaf_nodes": leaves, "learning_rate": rate} for leaves in (7, 15, 31) for rate in (0.03, 0.1)]

    def fitted(option: dict[str, Any], rows: np.ndarray) -> Any:
        model = HistGradientBoostingRegressor(max_iter=300, loss="squared_error", random_state=seed, **option)
        return model.fit(X[rows], z[rows], sample_weight=(1.0 + z[rows]) ** -2)

    def error(option: dict[str, Any]) -> float:
        return float(np.mean(((fitted(option, ~held).predict(X[held]) - z[held]) / (1 + z[held])) ** 2))

    mean = fitted(min(options, key=error), np.ones(len(z), dtype=bool)).predict(X_test)
    return Prediction.gaussian(mean, np.zeros(len(mean)), np.full(len(mean), z.std() ** 2))


def forest(X: np.ndarray, z: np.ndarray, X_test: np.ndarray, seed: int, n_kept: int = 40) -> Prediction:
    """Random forest whose leaves weigh training redshifts, smoothed by a kernel whose width held-out rows choose."""
    from sklearn.ensemble import RandomForestRegressor

    held = np.random.default_rng(seed).random(len(z)) < 0.2

    def predicted(rows: np.ndarray, X_new: np.ndarray, widths: tuple[float, ...]) -> list[Prediction]:
        trees = RandomForestRegressor(200, min_samples_leaf=3, max_features=0.5, random_state=seed).fit(
            X[rows], z[rows]
        )
        leaves, new = trees.apply(X[rows]), trees.apply(X_new)
        weights, means = np.empty((len(X_new), n_kept)), np.empty((len(X_new), n_kept))
        for i, where in enumerate(new):
            same = leaves == where
            share = (same / same.sum(axis=0)).mean(axis=1)
            top = np.argsort(-share)[:n_kept]
            weights[i], means[i] = share[top], z[rows][top]
        weights /= weights.sum(axis=1, keepdims=True)
        return [Prediction(weights, means, np.zeros_like(means), np.full_like(means, h**2)) for h in widths]

    widths = (0.01, 0.02, 0.03, 0.05, 0.08, 0.15)
    scores = [np.mean(p.log_pdf(z[held])) for p in predicted(~held, X[held], widths)]
    (found,) = predicted(np.ones(len(z), dtype=bool), X_test, (widths[int(np.argmax(scores))],))
    return quoted(found)


RIVALS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, int], Prediction]] = {
    "networks": networks,
    "boosting": boosting,
    "forest": forest,
}


def differences(
    z: np.ndarray, ours: list[Prediction], theirs: list[Prediction], keys: tuple[str, ...]
) -> dict[str, Any]:
    """Scores of gpzed less those of a rival: mean over seeds, and its standard error."""
    rng, found = np.random.default_rng(0), {}
    pairs = [
        (per_object_values(list(keys), z, p), per_object_values(list(keys), z, q))
        for p, q in zip(ours, theirs, strict=True)
    ]
    for key in keys:
        reduce = METRICS[key].reduce
        plain = [reduce(a[key], np.ones(len(z))) - reduce(b[key], np.ones(len(z))) for a, b in pairs]
        drawn = []
        for _ in range(RESAMPLES):
            w = rng.poisson(1.0, len(z)).astype(float)
            drawn.append(np.mean([reduce(a[key], w) - reduce(b[key], w) for a, b in pairs]))
        of_seeds = np.std(plain, ddof=1) ** 2 / len(plain) if len(plain) > 1 else 0.0
        found[key] = [round(float(np.mean(plain)), 5), round(float(np.sqrt(np.std(drawn) ** 2 + of_seeds)), 5)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    )
    parser.add_argument("--catalogues", nargs="+", choices=[*CATALOGUES, "taskset1"], default=[*CATALOGUES, "taskset1"])
    parser.add_argument("--rivals", nargs="+", choices=list(RIVALS), default=list(RIVALS))
    parser.add_argument("--rows", nargs="+", type=int, default=[300, 1000, 3000, 0], help="training rows; 0 for all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--n-test", type=int, default=5000)
    options = parser.parse_args()
    if not options.data_dir.is_dir():
        parser.exit(2, f'no folder "{options.data_dir}"; give the catalogues with --data-dir or GPZED_DATA.\n')
    warnings.simplefilter("ignore")
    for name in options.catalogues:
        whole, test = tables(options.data_dir, name, options.n_test)
        z_test = test.floats("z_spec")
        for n in options.rows:
            found: dict[str, list[Prediction]] = {method: [] for method in ("gpzed", *options.rivals)}
            for seed in options.seeds:
                rows = np.random.default_rng(seed).permutation(len(whole))[: n or None]
                compare(
                    whole.take(rows), test, {"catalogue": name, "n": len(rows), "seed": seed}, options.rivals, found
                )
            for rival in options.rivals:
                keys = POINT_KEYS if rival == "boosting" else KEYS
                made = {"catalogue": name, "n": len(rows), "seeds": len(options.seeds), "gpzed_less": rival}
                emit({"benchmark": "networks"} | made | differences(z_test, found["gpzed"], found[rival], keys))


def compare(training: Catalog, test: Catalog, made: dict[str, Any], rivals: list[str], found: dict[str, Any]) -> None:
    """Train and score gpzed and its rivals on the same rows."""
    started = time.process_time()
    model = train({name: np.asarray(training[name]) for name in training.names}, seed=made["seed"])
    trained = time.process_time() - started
    prediction = model.predict({name: np.asarray(test[name]) for name in test.names}).prediction
    report("gpzed", test, prediction, trained, made, found)
    X, X_test = features(model, training, test)
    for rival in rivals:
        started = time.process_time()
        prediction = RIVALS[rival](X, training.floats("z_spec"), X_test, made["seed"])
        report(rival, test, prediction, time.process_time() - started, made, found)


def report(
    method: str, test: Catalog, p: Prediction, seconds: float, made: dict[str, Any], found: dict[str, Any]
) -> None:
    """Print one line of scores, and keep the prediction."""
    found[method].append(p)
    scores = evaluate(test.floats("z_spec"), p)
    keys = POINT_KEYS if method == "boosting" else KEYS
    figures = {key: round(scores[key], 4) for key in keys}
    emit({"benchmark": "networks", **made, "method": method, **figures, "cpu_seconds": round(seconds, 1)})


if __name__ == "__main__":
    main()
