"""Run the campaign: `python -m faults [KIND ...] [--scale 10]`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from functools import partial
from pathlib import Path

from faults.campaign import KINDS, OPTIONAL, Tally, run_each, run_kind


def main() -> int:
    """Run the kinds asked for; return 1 if any case broke."""
    parser = argparse.ArgumentParser(
        prog="python -m faults", description="Break gpzed on purpose and count what happens."
    )
    parser.add_argument(
        "kinds",
        nargs="*",
        metavar="KIND",
        help=f"one or more of {', '.join(KINDS)}, all by default; or {', '.join(OPTIONAL)}",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="multiply the number of cases (10: an hour or more)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--each", type=int, help="interrupt every command that writes so often, and run nothing else (200: hours)"
    )
    parser.add_argument(
        "--log", type=Path, default=Path("build/faults/signals.jsonl"),
        help="file of JSON lines for the cases of --each; what is in it already is not repeated",
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=math.inf, help="end --each after so long, to be resumed")
    parser.add_argument("--json", action="store_true", help="print records, and return 0 even if something broke")
    options = parser.parse_args()
    unknown = set(options.kinds) - {*KINDS, *OPTIONAL}
    if unknown:
        parser.error(f"unknown kind {', '.join(sorted(unknown))}; choose from {', '.join(KINDS)}")
    show = partial(_print_records, " ".join(sys.argv[1:])) if options.json else _print
    tallies = []
    if options.each is not None:
        options.log.parent.mkdir(parents=True, exist_ok=True)
        tallies.append(run_each(options.each, options.seed, options.log, options.minutes))
        show(tallies[-1])
    for kind in options.kinds or (() if tallies else KINDS):
        tallies.append(run_kind(kind, options.scale, options.seed))
        show(tallies[-1])
    return 1 if any(tally.broken for tally in tallies) and not options.json else 0


def _print(tally: Tally) -> None:
    print(f"{tally.kind}: {tally.cases} cases, {len(tally.broken)} broken, {tally.seconds:.0f} s", flush=True)
    for (fault, outcome), count in sorted(tally.outcomes.items()):
        print(f"  {fault}: {outcome} {count}")
    for case in tally.broken[:20]:
        print(f"  BROKEN {case.fault}: {case.outcome}: {case.detail}")


def _print_records(run: str, tally: Tally) -> None:
    for record in tally.records(run.replace(" --json", "")):
        print(json.dumps(record), flush=True)
    for case in tally.broken:
        print(f"BROKEN {case.fault}: {case.outcome}: {case.detail}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
