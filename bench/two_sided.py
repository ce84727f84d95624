"""For measurements of which a part runs in the client's process: that is the same file, started again with --measure."""

import argparse
import pathlib
import sys


def main(doc, measure, drive, **numbers):
    """`numbers` are options and their defaults. Runs `measure(options)` in the client, where JAX has the cluster's devices, and
    `drive(options)` in the process that starts it; returns the exit code."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switchtower", type=pathlib.Path, default=pathlib.Path("build/switchtower"))
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--measure", action="store_true", help="in the client's process: measure on the devices that jax has")
    options = parser.parse_args()
    return (measure if options.measure else drive)(options) or 0


def client_command(script, **numbers):
    return [sys.executable, script, "--measure", *(f"--{name}={number}" for name, number in numbers.items())]
