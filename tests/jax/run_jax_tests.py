"""Runs jax's own tests against a cluster of ours and compares them with plain CPU.

  run_jax_tests.py --tests DIR                      # the cluster, judged by the stored baseline
  run_jax_tests.py --tests DIR --record-baseline    # plain CPU with 8 devices; stores what passes in baseline/

DIR holds tests/, conftest.py and pyproject.toml of jax at the version in requirements.txt, and no jax/ beside them:
  git -C JAX archive jax-v0.10.2 tests conftest.py pyproject.toml | tar -x -C DIR

The rate of a file is passed on the cluster / passed on plain CPU, over the ids in baseline/ that refused.txt doesn't list.
A test that the cluster skips and plain CPU passes counts as failed.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import cluster  # noqa: E402
from jax_suite_plugin import part_of  # noqa: E402

FILES = ["array", "multi_device", "pjit", "shard_map", "api", "aot", "layout", "memories", "python_callback",
         "debugging_primitives", "jaxpr_effects", "errors"]
SHAPE = (1, 4, 2)  # slices, hosts, devices: jax.make_mesh refuses several slices
BAR = 0.99


def make_venv(path: pathlib.Path) -> pathlib.Path:
    """The Python of an environment with exactly requirements.txt in it."""
    stamp, wanted = path / "installed.txt", (HERE / "requirements.txt").read_text()
    python = path / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {HERE / 'requirements.txt'} into {path}", flush=True)
        venv.create(path, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", HERE / "requirements.txt"],
                       check=True)
        stamp.write_text(wanted)
    return python


@contextlib.contextmanager
def plain_cpu():
    yield cluster.clean_environment() | {
        "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "PJRT_NPROC": "18",  # XLA's own CPU collectives hang with fewer threads than devices
    }


@contextlib.contextmanager
def our_cluster():
    with cluster.Up(SHAPE) as up:
        yield up.env


def run_file(python, environment, tests, name, only, options, log) -> dict[str, str]:
    """Outcomes by test id, of the ids in `only` where it isn't None. What the tests print goes to `log`."""
    outcomes = log.with_suffix(".outcomes")
    outcomes.unlink(missing_ok=True)
    search = [str(HERE), *filter(None, [environment.get("PYTHONPATH")])]
    environment = environment | {"PYTHONPATH": ":".join(search), "JAX_NUM_GENERATED_CASES": str(options.cases),
                                 "JAX_SKIP_SLOW_TESTS": "1"}
    command = [python, "-m", "pytest", "-p", "jax_suite_plugin", "--part", options.part, "--outcomes", outcomes, "-q", "-rN",
               "-p", "no:cacheprovider", "-n", str(options.processes), "--timeout", str(options.timeout),
               "--timeout-method=thread",  # a signal handler can't interrupt a test that is stuck in C++
               f"tests/{name}_test.py"]
    if only is not None:
        ids = log.with_suffix(".ids")
        ids.write_text("".join(f"{test}\n" for test in only))
        command += ["--only", ids]
    elif options.sample:
        command += ["--sample", options.sample]
    with log.open("w") as output:
        subprocess.run(list(map(str, command)), cwd=tests, env=environment, stdout=output, stderr=subprocess.STDOUT)
    if not outcomes.exists():
        print(f"{name:24} pytest didn't start, see {log}", flush=True)
        return {}
    found = {}
    for line in outcomes.read_text().splitlines():
        outcome, _, test = line.partition(" ")
        found[test] = outcome
    return found


def read_ids(path: pathlib.Path) -> list[str]:
    """Test ids, one a line; what follows a tab is a remark, lines that start with # are too."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split("\t")[0] for line in lines if line and not line.startswith("#")]


def record(name, outcomes):
    (HERE / "baseline").mkdir(exist_ok=True)
    path = HERE / "baseline" / f"{name}.txt"
    passed = [test for test, outcome in outcomes.items() if outcome == "passed"]
    others = [test for test in read_ids(path) if test not in outcomes]  # of the other part
    path.write_text("".join(f"{test}\n" for test in sorted(passed + others)))
    print(f"{name:24} {len(passed)} of {len(outcomes)} pass on plain CPU", flush=True)


def expected_of(name, part, only) -> list[str]:
    """What passes on plain CPU and may be asked of a cluster."""
    refused = set(read_ids(HERE / "refused.txt"))
    return [test for test in read_ids(HERE / "baseline" / f"{name}.txt")
            if part in ("all", part_of(test)) and test not in refused and (only is None or test in only)]


def judge(name, expected, outcomes) -> tuple[int, int]:
    """Prints a file's rate and what fails; returns (passed, expected)."""
    bad = [(test, outcomes.get(test, "missing")) for test in expected if outcomes.get(test) != "passed"]
    passed = len(expected) - len(bad)
    print(f"{name:24} {passed:4} of {len(expected):4}  {100 * passed / len(expected):6.2f} %", flush=True)
    for test, outcome in bad:
        print(f"    {outcome}: {test}", flush=True)
    return passed, len(expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=pathlib.Path, required=True, help="where jax's tests lie")
    parser.add_argument("--part", choices=["public", "hidden", "all"], default="public")
    parser.add_argument("--files", nargs="+", default=FILES, metavar="NAME", help="such as pjit, for tests/pjit_test.py")
    parser.add_argument("--only", type=pathlib.Path, help="a file of test ids; no others run")
    parser.add_argument("--sample", type=int, help="with --record-baseline: at most so many tests of each file")
    parser.add_argument("--record-baseline", action="store_true", help="run on plain CPU and store what passes")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "jaxtests-venv")
    parser.add_argument("--logs", type=lambda path: pathlib.Path(path).resolve(), default=ROOT / "build" / "jaxtests-logs")
    parser.add_argument("--processes", type=int, default=1, help="clients at once")
    parser.add_argument("--timeout", type=int, default=100, help="seconds a test may take")
    parser.add_argument("--cases", type=int, default=3, help="how many of jax's generated cases of each test")
    options = parser.parse_args()
    if not (options.tests / "tests").is_dir() or (options.tests / "jax").is_dir():
        parser.error(f"{options.tests} must hold jax's tests/, conftest.py and pyproject.toml, and no jax/ (the wheel must win)")

    python = make_venv(options.venv)
    options.logs.mkdir(parents=True, exist_ok=True)
    only = set(read_ids(options.only)) if options.only else None
    total = [0, 0]
    with (plain_cpu() if options.record_baseline else our_cluster()) as environment:
        for name in options.files:
            log = options.logs / f"{name}.log"
            if options.record_baseline:
                record(name, run_file(python, environment, options.tests, name, only, options, log))
                continue
            expected = expected_of(name, options.part, only)
            if not expected:
                print(f"{name:24} nothing of it in baseline/ (--record-baseline)", flush=True)
                continue
            outcomes = run_file(python, environment, options.tests, name, expected, options, log)
            total = [sum(pair) for pair in zip(total, judge(name, expected, outcomes))]
    if options.record_baseline:
        return 0
    rate = total[0] / total[1] if total[1] else 0
    print(f"{'all':24} {total[0]:4} of {total[1]:4}  {100 * rate:6.2f} %   (bar: {100 * BAR:.0f} %), logs in {options.logs}")
    return 0 if rate >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
