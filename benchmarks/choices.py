"""One choice of training other than by default, scored on rows that took no part in it: one JSON line.

    python benchmarks/choices.py --catalogue boss --choice n_basis=25 --seed 0

One member unless told otherwise, so that the choice is not hidden by what a committee evens out; all else as by
default. Needs the catalogues (`--data-dir`, or GPZED_DATA).
"""

from __future__ import annotations

import argparse
import ast
import os
import warnings
from pathlib import Path
from typing import Any

from catalogues import CATALOGUES, ROOT, tables
from common import emit
from gpzed import train
from gpzed.evaluation import evaluate
from gpzed.workflows import predict_table

KEYS = ("rmse", "mll", "fr_0.15", "fr_0.05", "crps", "pit_ks", "coverage_68")


def option(text: str) -> dict[str, Any]:
    """Read NAME=VALUE; nothing is changed by `defaults`."""
    if text == "defaults":
        return {}
    name, _, value = text.partition("=")
    try:
        return {name: ast.literal_eval(value)}
    except (ValueError, SyntaxError):
        return {name: value}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("GPZED_DATA") or ROOT.parent / "shared/data")
    parser.add_argument("--data-dir", type=Path, default=default)
    parser.add_argument("--catalogue", choices=list(CATALOGUES), required=True)
    parser.add_argument("--choice", default="defaults", help="NAME=VALUE, an option of `gpzed.train`, or `defaults`")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    training, test = tables(args.data_dir, args.catalogue)
    model = train(training, seed=args.seed, n_members=args.members, **option(args.choice))
    scores = evaluate(test.floats("z_spec"), predict_table(model, test)[0])
    record = {"catalogue": args.catalogue, "choice": args.choice, "seed": args.seed, "n": len(training)}
    record |= {"n_basis": model.regressor.n_basis_, **{key: round(scores[key], 5) for key in KEYS}}
    emit(record)


if __name__ == "__main__":
    main()
