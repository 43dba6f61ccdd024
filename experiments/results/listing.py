"""All experiments, the most visible and cheapest first: the order in which `make results` runs them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from faults.campaign import KINDS

SEEDS = (0, 1, 2)
CATALOGUES = ("dc2", "boss", "vipers", "gama", "deep", "quasars")
LEAGUE = ("dc2", "taskset1", "boss", "gama")
STRUCTURES = ("GL", "VL", "GD", "VD", "GC", "VC")
CHOICES = (
    *("defaults", "n_networks=0", "n_heads=1", "n_heads=5", "n_heads=12", "n_basis=25", "n_basis=50", "n_basis=200"),
    *("covariance=GL", "covariance=VL", "covariance=VD", "covariance=GC", "init=data", "init=random"),
    *("whitening=scale", "mean_function=zero", "shape_prior=0", "noise=homoscedastic", "relevance=shared"),
)
ERRORS = ("none", "excess", "inputs")
TREATMENTS = ("marginalise", "limit", "fill", "mean", "drop", "boosting", "marginalise_all", "limit_all")
BOSS_FILES = "--min-redshift 0.002 --test sdss_boss_dr10/boss_dr10_1.parquet " + " ".join(
    f"--catalogue sdss_boss_dr10/boss_dr10_{number}.parquet" for number in (0, 3)
)
DC2_FILES = "--catalogue rail_dc2_9816/training.parquet --test rail_dc2_9816/validation.parquet"
SECTION_7 = "--table metrics --figure fr --figure scatter --figure rejection --figure improvement --figure bias"


@dataclass(frozen=True)
class Experiment:
    """A script and the runs of it that make a file of records, docs/results/NAME.jsonl."""

    name: str
    subject: str | None  # whose epoch its records belong to; None if they measure other codes
    script: str
    tasks: tuple[str, ...]  # arguments of each run, which prints JSON lines
    seconds: float  # of the processor for one run, roughly, until one is recorded
    alone: bool = False  # whether it takes times, and so runs with nothing beside it
    environment: str = ".venv"
    costs: tuple[float, ...] = ()  # seconds of each run, where they differ much

    def command(self, task: str) -> str:
        """Return the command of a run, as its records name it."""
        return f"{self.script} {task}".strip()

    def cost(self, task: str) -> float:
        """Return the seconds that a run takes, roughly."""
        return self.costs[self.tasks.index(task)] if self.costs else self.seconds


def each(arguments: str, *values: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the arguments filled in with every combination of values, the last changing fastest."""
    return tuple(arguments.format(*chosen) for chosen in product(*values))


def paper(folder: str, arguments: str, seeds: tuple[int, ...] = (0,)) -> tuple[str, ...]:
    """Return runs of the paper's experiments; seeds other than 0 have folders of their own."""
    return tuple(
        f"--record --output docs/results/paper/{folder}{f'-{seed}' if seed else ''} --seed {seed} {arguments}"
        for seed in seeds
    )


def scores(name: str, script: str, tasks: tuple[str, ...], seconds: float, **more: Any) -> Experiment:
    """Return an experiment on the scores of the defaults."""
    return Experiment(name, "defaults", f"benchmarks/{script}.py", tasks, seconds, **more)


def times(name: str, script: str, tasks: tuple[str, ...], seconds: float, **more: Any) -> Experiment:
    """Return an experiment that takes times."""
    return Experiment(name, "kernels", f"benchmarks/{script}.py", tasks, seconds, alone=True, **more)


LISTED = (
    scores("defaults", "defaults", each("--seed {} --catalogue {}", SEEDS, CATALOGUES), 90),
    scores(
        "league",
        "league/league",
        each("--code gpzed --seed {} --catalogue {}", SEEDS, LEAGUE),
        60,
        environment=".venv-league",
    ),
    scores("coverage", "coverage", each("--seed {} --case {}", SEEDS, ("gap", "des", "boss")), 40),
    scores("recalibration", "recalibration", each("--seed {} --catalogue {}", SEEDS, ("dc2", "boss", "deep")), 30),
    scores("choices", "choices", each("--seed {} --catalogue {} --choice {}", SEEDS, ("boss", "dc2"), CHOICES), 9),
    scores(
        "errors",
        "choices",
        tuple(
            task
            for task in each("--members 5 --seed {} --catalogue {} --choice errors={}", SEEDS, CATALOGUES, ERRORS)
            if not task.endswith("dc2 --choice errors=excess")  # they follow from the magnitudes, and it is refused
        ),
        12,
    ),
    Experiment(
        "paper",
        "paper",
        "-m experiments.paper",
        (
            *paper("simulator", "--figure sinc --figure surface"),
            *paper("dc2", f"--table metrics --figure improvement {DC2_FILES}", SEEDS),
            *paper("boss", f"--table metrics --figure improvement {BOSS_FILES}", SEEDS),
            *paper("boss-magnitudes", f"--no-errors --table metrics {BOSS_FILES}", SEEDS),
            *paper("small", "--size 10000 --table metrics", SEEDS),
            *paper("small", "--size 10000 --max-iter 150 --figure complexity --figure network"),
            *paper("simulator", f"{SECTION_7} --figure uncertainty"),
            *paper("simulator", "--max-iter 150 --figure complexity"),
        ),
        900,
        environment=".venv-league",  # which has TPZ
        costs=(10, *[100] * 3, *[100] * 3, *[100] * 3, *[400] * 3, 1200, 6_000, 12_000),
    ),
    scores(
        "local",
        "local",
        each("--seed {} --catalogue {}", SEEDS, CATALOGUES),
        150,
        environment=".venv-league",  # which has calpit
    ),
    scores("steps", "steps", each("--catalogues {}", ("dc2", "boss", "deep", "vipers", "quasars")), 200),
    scores(
        "networks",
        "networks",
        each("--rows {} --n-test 3000 --seeds 0 1 2 --catalogues {}", (1000, 300, 3000, 0), (*CATALOGUES, "taskset1")),
        240,
        environment=".venv-networks",
    ),
    Experiment(
        "shift",
        "target",
        "benchmarks/shift.py",
        each("--seeds {} --runs {}", SEEDS, ("2+target", "3+target", "4+target", "3", "1", "2", "2+weights")),
        150,
    ),
    Experiment(
        "cuts",
        "target",
        "benchmarks/cuts.py",
        each("--seeds {} --cut {}", SEEDS, ("dc2", "des")),
        90,
        environment=".venv-networks",
    ),
    scores("nz", "nz", ("--mocks 42",), 120),
    scores("labels", "labels", each("--seeds 3 --sets {}", ("dc2", "boss")), 300),
    scores(
        "depth", "depth", each("--max-train 3000 --max-test 3000 --catalogues {} --seed {}", ("dc2", "boss"), SEEDS), 60
    ),
    scores(
        "survey",
        "survey",
        each("--seed {} --catalogue {} --bias {}", SEEDS, ("dc2", "des", "deep"), ("bright", "colour", "none")),
        40,
    ),
    scores(
        "missing",
        "missing",
        each("--seed {} --catalogue {} --treatment {}", SEEDS, ("dc2", "deep", "des-gaps"), TREATMENTS),
        40,
    ),
    scores(
        "soundness",
        "soundness",
        (
            *each("--n {} --structure {}", (300, 1000, 3000, 10_000), STRUCTURES),
            *each("--n {} --heads 8 --members 5", (300, 1000, 3000, 10_000)),
        ),
        60,
    ),
    scores(
        "pdfs",
        "pdfs",
        each("--seed {} --catalogues {}", SEEDS, ("dc2", "boss", "deep", "vipers", "gama", "quasars")),
        60,
    ),
    Experiment("gallery", "defaults", "-m experiments.gallery", ("",), 60),
    Experiment("simulator", None, "benchmarks/simulator.py", each("--seed {}", SEEDS), 90),
    Experiment(
        "league-rivals",
        None,
        "benchmarks/league/league.py",
        each(
            "--seed {} --catalogue {} --code {}",
            SEEDS,
            LEAGUE,
            ("forest", "knn", "gpz-compat", "flexzboost", "dnf", "cmnn", "nn", "gpz-v1", "tpz"),
        ),
        100,
        environment=".venv-league",
    ),
    Experiment(
        "shift-rivals",
        None,
        "benchmarks/shift_rivals.py",
        each("--seeds {} --runs 2 --methods {}", SEEDS, ("stratlearn", "flexzboost", "networks", "pzflow")),
        400,
        environment=".venv-networks",
    ),
    times("evidence", "evidence", each("--n 100000 --m {} --structure {}", (5, 25, 100, 500), STRUCTURES), 25),
    times("prediction", "predict", each("--n 200000 --structure {}", STRUCTURES), 10),
    times("patterns", "patterns", ("--n 100000 --d 10 --m 100",), 60),
    times(
        "committee",
        "committee",
        ("--n 40000 --files 400000 --repeat 3 --catalogues dc2 boss --scores --other ff00cbd",),
        900,
    ),
    times(
        "training",
        "training",
        (
            "--repeat 2 --n 1000 3000 10000 30000",
            "--n 100000 --threads 2",
            "--repeat 2 --d 4 12 24",
            "--repeat 2 --m 25 50 100 200",
            "--repeat 2 --d 12 --patterns 1 4 30 100",
            *each("--repeat 2 --catalogue {} --other ff00cbd", ("dc2", "deep")),
        ),
        120,
    ),
    times("versus", "versus", ("",), 900),
    times("stages", "stages", ("",), 300),
    times("pipeline", "pipeline", ("--rows 4000000 --model paper", "--rows 500000"), 60),
    times(
        "dask",
        "dask_cluster",
        (
            "--patterns --repeat 20",
            "--patterns --shards 8 --repeat 20",
            "--n 1000000 --repeat 4",
            "--predict --n 400000",
        ),
        90,
    ),
    times("ten_billion", "ten_billion", ("docs/results/dask.jsonl",), 20),
    Experiment(
        "faults",
        None,
        "-m faults",
        (
            *each("{} --json", KINDS),
            "--each 200 --json",
            "--each 20 --seed 1 --log build/faults/mended.jsonl --json",  # after what the one above had found
            "checkpoints --scale 10 --seed 1 --json",
            *each("fits --scale 10 --seed {} --json", tuple(range(1, 5))),
            "catalogues --scale 5 --seed 1 --json",
            "models --scale 25 --seed 1 --json",
            "guided --json",
        ),
        60,
        environment=".venv-scale",  # which has LSDB
        costs=(*[60] * len(KINDS), 3000, 300, 30, *[160] * 4, 70, 230, 300),
    ),
    Experiment(
        "paper-times",
        "kernels",
        "-m experiments.paper",
        paper("simulator", "--table time"),
        1200,
        environment=".venv-league",  # which has TPZ
    ),
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in LISTED}
"""All experiments by name, in the order in which they run."""
