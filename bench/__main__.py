"""All figures, side by side with peers in one run: JSON lines, a table and a picture.

    python bench --switchtower build/switchtower --out build/figures [--quick] [--only dispatch,parity]
                 [--monarch-python VENV/bin/python] [--ray-python VENV/bin/python]

Writes OUT.jsonl, OUT.md and OUT.svg. bench/README.md tells what each measurement is.
"""

import argparse
import pathlib
import sys
import time

import dispatch
import first_calls
import launch_cost
import parity
import picture
import train_step
from rows import Rows

MEASUREMENTS = {"dispatch": dispatch, "launch_cost": launch_cost, "train_step": train_step, "parity": parity, "first_calls": first_calls}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--switchtower", type=pathlib.Path, default=pathlib.Path("build/switchtower"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/figures"), help="files' name without its end")
    parser.add_argument("--only", default=",".join(MEASUREMENTS), help="of " + ", ".join(MEASUREMENTS))
    parser.add_argument("--shapes", default=",".join(dispatch.SHAPES), help="of the dispatch measurement, workers x devices")
    parser.add_argument("--passes", type=int, help="of each measurement; default 5, or 3 with --quick")
    parser.add_argument("--seconds", type=float, help="of a pass; default 1, or 0.3 with --quick")
    parser.add_argument("--quick", action="store_true", help="short passes: for a look, not for figures")
    parser.add_argument("--monarch-python", help="a Python with torchmonarch and jax")
    parser.add_argument("--ray-python", help="a Python with ray and jax")
    options = parser.parse_args()
    options.passes = options.passes or (3 if options.quick else 5)
    options.seconds = options.seconds or (0.3 if options.quick else 1.0)
    options.shapes = options.shapes.split(",")
    built = options.switchtower.resolve().parent / "bench"
    options.ack_server, options.grpc_echo = built / "ack_server", built / "grpc_echo"
    unknown = set(options.only.split(",")) - set(MEASUREMENTS) | set(options.shapes) - set(dispatch.SHAPES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    failed = False
    with open(f"{options.out}.jsonl", "w") as file:
        rows = Rows(file)
        for name in options.only.split(","):
            begin = time.monotonic()
            try:
                MEASUREMENTS[name].measure(rows, options)
            except Exception as error:  # the other measurements still have their figures
                failed = True
                rows.add(f"{name}_failed", error=f"{type(error).__name__}: {error}"[-2000:])
            print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    pathlib.Path(f"{options.out}.md").write_text(picture.table(rows))
    try:
        picture.draw(f"{options.out}.svg", rows)
    except ImportError:
        print("no picture: matplotlib isn't installed (python/requirements.txt)", file=sys.stderr)
    print(picture.table(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
