"""`python -m benchmarks [--quick] [PART …]`: measure, print the table, write results.json."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import dashboard, service
from benchmarks.harness import QUICK, Figure, Size

PARTS: Final[dict[str, Callable[[Size], Iterator[Figure]]]] = {
    "dashboard": dashboard.measure,
    "service": service.measure,
}
_LINE: Final = "{:<46} {:>9} {:>7} {:>9} {:>7} {:>7}  {}"


def main(argv: list[str] | None = None) -> int:
    """Always 0: figures on a shared machine inform, they do not fail."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("results.json"))
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    args = parser.parse_args(argv)
    unknown = set(args.parts) - PARTS.keys()
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    print(_LINE.format("", "value", "", "baseline", "ratio", "goal", ""))
    figures = []
    for name in args.parts or PARTS:
        for figure in PARTS[name](QUICK if args.quick else Size()):
            figures.append(figure)
            _print(figure)
    _write(args.output, figures)
    return 0


def _print(figure: Figure) -> None:
    ratio, baseline = figure.ratio, figure.baseline
    print(
        _LINE.format(
            figure.name,
            f"{figure.value:.2f}",
            figure.unit,
            "" if baseline is None else f"{baseline:.2f}",
            "" if ratio is None else f"{ratio:.2f}x",
            f"{figure.goal:g}" if figure.by_value or ratio is None else f"{figure.goal:g}x",
            ("ok" if figure.ok else "MISSED") + (f"  ({figure.note})" if figure.note else ""),
        ),
        flush=True,
    )


def _write(path: Path, figures: list[Figure]) -> None:
    machine = {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": sys.version.split()[0],
    }
    results = [
        {**msgspec.structs.asdict(figure), "ratio": figure.ratio, "ok": figure.ok}
        for figure in figures
    ]
    body = {"machine": machine, "figures": results}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(body)) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
