"""Parity as in the paper: the smallest computation at which launches one by one reach 99 % of one process's throughput."""

import contestants
from rows import alternate, median, rate, ratio

PARITY = 0.99
WORKERS = (1, 2, 4, 8)


def measure(rows, options):
    for workers in WORKERS:
        with contestants.switchtower(options.switchtower, workers) as ours, contestants.plain_jax(workers) as plain:
            reached = None
            # The same amount of work in each step on both sides, doubled from case to case.
            for work in (2**i for i in range(2, 13 if options.quick else 15)):
                answers, errors = alternate([ours, plain], options.passes,
                                            lambda one: one.measure("work", options.seconds, work=work))
                if errors:
                    rows.add("parity_failed", workers=workers, error=str(errors)[-500:])
                    break
                plain_ms = 1e3 / median(answers["plain_jax"], rate)
                share = ratio(answers["switchtower"], answers["plain_jax"], rate)
                rows.add("parity", workers=workers, plain_step_ms=plain_ms, ratio=share)
                reached = (reached or plain_ms) if share >= PARITY else None
                if plain_ms > 60 or (reached and plain_ms > 4 * reached):
                    break
            rows.add("parity_point", workers=workers, step_ms=reached)
