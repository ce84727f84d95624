"""pytest plug-in: runs one part of jax's suite and writes every test's outcome to a file as it happens.

  pytest -p jax_suite_plugin --part public --outcomes FILE tests/pjit_test.py

Parts: a test is in "public" or "hidden" by a hash of its file and of the first words of its name, so the parts are the same on every
machine and all variants of a test (parametrised, numbered, suffixed) are in one of them. We develop against "public" only.

--sample N keeps at most N tests of each file, spread by a hash of their ids; the same ones wherever the same tests are collected.

FILE gets one line a test, "outcome id", outcome being passed, failed or skipped. A test that takes its process with it is a failure.

The backend is made before the first test: a plug-in may set jax's options, and jax's tests insist that nobody does while they run.
"""

import collections
import hashlib
import re

DEVICES = 8

FIRST_WORDS = re.compile(r"test_?[A-Za-z]+(?:_[A-Za-z]+)?")


def part_of(test_id: str) -> str:
    path, *_, name = test_id.split("::")
    name = name.split("[")[0]
    words = FIRST_WORDS.match(name)
    family = f"{path.rsplit('/', 1)[-1]}::{words.group() if words else name}"
    digest = hashlib.sha1(f"part{family}".encode()).digest()
    return ("public", "hidden")[digest[-1] % 2]


def sampled(items, count: int):
    """At most `count` of each file's items, in their order."""
    by_file = collections.defaultdict(list)
    for item in items:
        by_file[item.path].append(item)
    chosen = set()
    for of_file in by_file.values():
        of_file.sort(key=lambda item: hashlib.sha1(f"sample{item.nodeid}".encode()).digest())
        chosen.update(map(id, of_file[:count]))
    return [item for item in items if id(item) in chosen]


def pytest_addoption(parser):
    parser.addoption("--part", choices=["public", "hidden", "all"], default="all")
    parser.addoption("--sample", type=int, help="at most so many tests of each file")
    parser.addoption("--only", help="a file of test ids to run, one a line")
    parser.addoption("--outcomes", help="a file to which outcomes are appended")


def pytest_collection_modifyitems(config, items):
    part, only = config.getoption("--part"), config.getoption("--only")
    keep = [item for item in items if part in ("all", part_of(item.nodeid))]
    if only:
        with open(only) as file:
            wanted = set(file.read().split("\n"))
        keep = [item for item in keep if item.nodeid in wanted]
    if config.getoption("--sample"):
        keep = sampled(keep, config.getoption("--sample"))
    kept = set(map(id, keep))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = keep


class OutcomeLog:
    """A test reports up to three phases: it passed if its call did and no other phase failed."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1)
        self.outcome = {}

    def pytest_runtest_logreport(self, report):
        known = self.outcome.get(report.nodeid)
        if report.failed:
            now = "failed"
        elif report.skipped:
            now = known or "skipped"
        else:
            now = known or ("passed" if report.when == "call" else None)
        if now != known:
            self.outcome[report.nodeid] = now
        # A process that dies reports the test it was in with when="???" and no teardown.
        if report.when not in ("setup", "call"):
            self.file.write(f"{self.outcome.pop(report.nodeid, None) or 'failed'} {report.nodeid}\n")


def pytest_configure(config):
    import jax

    if len(jax.devices()) < DEVICES:
        raise RuntimeError(f"jax's tests want {DEVICES} devices, there are {len(jax.devices())}")
    # With xdist, the process that hands out the tests sees the reports of all workers.
    if config.getoption("--outcomes") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(OutcomeLog(config.getoption("--outcomes")))
