"""Passes that alternate between the contestants, their medians, and how rows are told."""

import json
import os
import statistics


class Rows:
    """Prints each row as a JSON line and keeps it."""

    def __init__(self, file=None):
        self.rows, self._file = [], file

    def add(self, bench, **row):
        rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}
        row = {"bench": bench, **rounded, "load1": round(os.getloadavg()[0], 1)}
        self.rows.append(row)
        line = json.dumps(row)
        print(line, flush=True)
        if self._file is not None:
            print(line, file=self._file, flush=True)

    def of(self, bench, **match):
        return [row for row in self.rows if row["bench"] == bench and all(row.get(k) == v for k, v in match.items())]


def alternate(contestants, passes, measure):
    """`measure(contestant)` for all of them in turn, `passes` times: a list of answers by name.

    One that fails is left out from then on and has an error instead; the others go on.
    """
    answers, errors = {contestant.name: [] for contestant in contestants}, {}
    for _ in range(passes):
        for contestant in contestants:
            if contestant.name in errors:
                continue
            try:
                answers[contestant.name].append(measure(contestant))
            except RuntimeError as error:
                errors[contestant.name] = str(error)
    return answers, errors


def rate(answer):
    return answer["computations"] / answer["seconds"]


def median(answers, of):
    return statistics.median(of(answer) for answer in answers)


def ratio(ours, theirs, of):
    """The median of the ratios of passes that were neighbours."""
    return statistics.median(of(a) / of(b) for a, b in zip(ours, theirs))
