"""The rows of a run as a table (Markdown) and a picture."""

PEERS = ("switchtower", "plain_jax", "gloo_jax", "monarch", "ray")
COLORS = dict(zip(PEERS, ("tab:blue", "tab:gray", "tab:orange", "tab:green", "tab:red")))


def table(rows):
    lines = []

    def section(title, head, cells):
        if cells:
            lines.extend([f"## {title}", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)])
            lines.extend("| " + " | ".join(f"{cell:,.4g}" if isinstance(cell, float) else str(cell) for cell in row) + " |" for row in cells)
            lines.append("")

    section("Computations a second: medians of alternating passes", ("workers x devices", "what", "system", "a second", "Switchtower / it"),
            [(r["shape"], r["op"], r["peer"], r["computations_per_s"], r.get("switchtower_ratio", "")) for r in rows.of("dispatch")])
    section("A launch's time in the client, us", ("workers", "what", "Switchtower", "a server that only acknowledges", "ratio"),
            [(r["hosts"], r["what"], r["switchtower"], r["acknowledged"], r["ratio"]) for r in rows.of("client_time")])
    section("A launch's CPU time in the proxy, us", ("launches", "by workers", "each further", "gRPC echo", "gRPC write", "one worker / echo", "further / write"),
            [(r["op"], ", ".join(f"{k}: {v}" for k, v in r["us_by_workers"].items()), r["us_each_further_worker"], r["grpc_echo_us"],
              r["grpc_write_us"], r["one_worker_ratio"], r["further_worker_ratio"]) for r in rows.of("proxy_cpu")])
    section("Train step, 4 workers of one device", ("Switchtower, steps/s", "plain JAX, steps/s", "ratio"),
            [(r["switchtower_steps_per_s"], r["plain_jax_steps_per_s"], r["ratio"]) for r in rows.of("train_step")])
    section("Parity: smallest step at 99 % of one process", ("workers", "ms"),
            [(r["workers"], r["step_ms"] if r["step_ms"] is not None else "not reached") for r in rows.of("parity_point")])
    section("First calls, s", ("what", "Switchtower", "plain JAX", "ratio"),
            [(r["case"], r["switchtower_s"], r.get("plain_jax_s", ""), r.get("ratio", "")) for r in rows.of("first_call")])
    failed = [r for r in rows.rows if r["bench"].endswith("_failed")]
    section("Failed", ("bench", "error"), [(r["bench"], r["error"].splitlines()[0][:120]) for r in failed])
    return "\n".join(lines)


def draw(path, rows):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    shapes = list(dict.fromkeys(r["shape"] for r in rows.of("dispatch")))
    panels = len(shapes) + bool(rows.of("parity"))
    if panels == 0:
        return
    figure, axes = pyplot.subplots(1, panels, figsize=(5 * panels, 4), squeeze=False)
    for axis, shape in zip(axes[0], shapes):
        here = rows.of("dispatch", shape=shape)
        ops = list(dict.fromkeys(r["op"] for r in here))
        peers = [peer for peer in PEERS if any(r["peer"] == peer for r in here)]
        for i, peer in enumerate(peers):
            at = [(j, r["computations_per_s"]) for j, op in enumerate(ops) for r in here if (r["op"], r["peer"]) == (op, peer)]
            axis.bar([x + (i - (len(peers) - 1) / 2) * 0.8 / len(peers) for x, _ in at], [y for _, y in at], 0.8 / len(peers),
                     label=peer, color=COLORS[peer])
        axis.set(title=f"{shape} (workers x devices)", ylabel="computations/s", yscale="log", xticks=range(len(ops)), xticklabels=ops)
        axis.margins(y=0.3)  # room for the legend
        axis.legend(fontsize="small", loc="upper right")
    if rows.of("parity"):
        axis = axes[0][-1]
        for workers in dict.fromkeys(r["workers"] for r in rows.of("parity")):
            here = rows.of("parity", workers=workers)
            axis.plot([r["plain_step_ms"] for r in here], [r["ratio"] for r in here], marker=".", label=f"{workers} workers")
        axis.axhline(0.99, color="black", linewidth=0.5)
        axis.set(title="throughput beside one process", xlabel="ms of a step in one process", ylabel="ratio", xscale="log", ylim=(0, 1.2))
        axis.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path)
