"""The train step of examples/train_lm.py on 4 workers of one device, beside plain JAX with 4 virtual devices."""

import contestants
from rows import alternate, median, rate, ratio


CHECKED = 10  # steps after which both tell their loss


def measure(rows, options):
    with contestants.switchtower(options.switchtower, 4, script="train.py") as ours, \
            contestants.plain_jax(4, script="train.py", large_pool=False) as plain:
        losses = {one.name: one.ask(op="train", count=CHECKED)["loss"] for one in (ours, plain)}
        seconds = max(2.0, options.seconds)
        answers, errors = alternate([ours, plain], options.passes, lambda one: one.measure("train", seconds))
        if errors:
            return rows.add("train_step_failed", error=str(errors)[-500:])
        rows.add("train_step", switchtower_steps_per_s=median(answers["switchtower"], rate),
                 plain_jax_steps_per_s=median(answers["plain_jax"], rate),
                 ratio=ratio(answers["switchtower"], answers["plain_jax"], rate),
                 checked_steps=CHECKED, losses=losses)
