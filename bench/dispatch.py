"""The paper's micro-benchmark beside peers: computations a second, OpByOp, waiting for each, Chained and Fused 128."""

import contextlib

import contestants
from rows import alternate, median, rate, ratio

OPS = ("opbyop", "waiting", "chained", "fused")
# Workers x devices of each, and whether the peers of several processes run beside it.
SHAPES = {"1x4": (1, 4, False), "4x1": (4, 1, True), "8x1": (8, 1, True)}


def measure(rows, options):
    for shape in options.shapes:
        hosts, devices, peers = SHAPES[shape]
        with contextlib.ExitStack() as stack:
            enter = stack.enter_context
            field = [enter(contestants.switchtower(options.switchtower, hosts, devices)), enter(contestants.plain_jax(hosts * devices))]
            if peers:
                started = [lambda: contestants.gloo_jax(hosts)]
                started += [lambda: contestants.monarch(options.monarch_python, hosts)] if options.monarch_python else []
                started += [lambda: contestants.ray(options.ray_python, hosts)] if options.ray_python else []
                for start in started:
                    try:
                        field.append(enter(start()))
                    except RuntimeError as error:
                        rows.add("dispatch_failed", shape=shape, error=str(error)[-500:])
            for op in OPS:
                answers, errors = alternate(field, options.passes, lambda one: one.measure(op, options.seconds))
                ours = answers["switchtower"]
                for name, theirs in answers.items():
                    if name in errors:
                        rows.add("dispatch_failed", shape=shape, op=op, peer=name, error=errors[name][-500:])
                    if not theirs:
                        continue
                    row = {"shape": shape, "op": op, "peer": name, "computations_per_s": median(theirs, rate),
                           "best_per_s": max(map(rate, theirs)), "passes": len(theirs)}
                    if name != "switchtower" and ours:
                        row["switchtower_ratio"] = ratio(ours, theirs, rate)
                    rows.add("dispatch", **row)
