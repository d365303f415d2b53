"""The paper's sentences, tested on our observations: agrees or differs, with the numbers.

Thresholds are ours, stated in the evidence; none was chosen to make a claim hold. Where a
sentence is about curves, it is judged on the batch sizes that were measured.
"""

from __future__ import annotations

from collections.abc import Callable

from ..reproduction import NoData, Verdict, number
from .latency import burst, within
from .observations import UNBATCHED, Run

MINIB, MINIB_MIX = "MiniB/PIx", "MiniB/PIx/MIx"
FULL, FULL_MIX = "Full/PIx", "Full/MIx"
SMALL, LARGE = 75, 5_000  # batch sizes of Tables 2 and 3
SAME = 1.05  # what we take for no difference


def listed(values: dict[int, float], unit: str = " ×") -> str:
    return ", ".join(f"{n:,}: {value:.2f}{unit}" for n, value in values.items())


# Figures 6 and 7 ---------------------------------------------------------------------------------


def full_pix(run: Run) -> Verdict:
    ratios = {n: r for n, r in run.speedups("RQ-Z", FULL).items() if n >= SMALL}
    if not ratios:
        raise NoData
    last = ratios[max(ratios)]
    text = f"Full/PIx / unbatched at {listed(ratios)} (agrees if below 1, and 0.2 at the last)"
    return max(ratios.values()) < 1 and last <= 0.2, text


def full_mix_small(run: Run) -> Verdict:
    ratio = run.speedup("RQ-Z", FULL_MIX, 1)
    return ratio <= 0.2, f"Full/MIx / unbatched at 1: {ratio:.3f} (agrees if 0.2 or less)"


def full_mix_peak(run: Run) -> Verdict:
    ratios = run.speedups("RQ-Z", FULL_MIX)
    best = max(ratios, key=ratios.__getitem__)
    ratio = run.speedup("RQ-Z", FULL_MIX, 1_250)
    text = f"Full/MIx / unbatched at 1,250: {ratio:.2f}, best {ratios[best]:.2f} at {best:,}"
    return 1.25 <= ratio <= 2, f"{text} (agrees if 1.25 to 2)"


def full_mix_drop(run: Run) -> Verdict:
    ratios = run.speedups("RQ-Z", FULL_MIX)
    at = run.speedup("RQ-Z", FULL_MIX, 5_000)
    text = f"Full/MIx / unbatched at 5,000: {at:.2f}, best {max(ratios.values()):.2f}"
    return at < 1 < max(ratios.values()), f"{text} (agrees if below 1, yet above 1 before)"


def minib_best(run: Run) -> Verdict:
    leads = {}
    for n in run.sizes("RQ-Z"):
        rivals = [name for name in (UNBATCHED, FULL, FULL_MIX) if n in run.curve("RQ-Z", name)]
        if SMALL <= n <= 10_000 and n in run.curve("RQ-Z", MINIB):
            best = max(run.rate("RQ-Z", name, n) for name in rivals)
            leads[n] = run.rate("RQ-Z", MINIB, n) / best
    if not leads:
        raise NoData
    text = f"MiniB/PIx / best of unbatched and full at {listed(leads)}"
    return min(leads.values()) > SAME, f"{text} (agrees if all above {SAME})"


def minib_150(run: Run) -> Verdict:
    ratio = run.speedup("RQ-Z", MINIB, 150)
    return ratio >= 1.8, f"MiniB/PIx / unbatched at 150: {ratio:.2f} (agrees if 1.8 or more)"


def minib_10000(run: Run) -> Verdict:
    ratio = run.speedup("RQ-Z", MINIB, 10_000)
    return ratio >= 6, f"MiniB/PIx / unbatched at 10,000: {ratio:.2f} (agrees if 6 or more)"


def mix_over_plain(run: Run, stream: str, most: int = 10_000) -> dict[int, float]:
    """MiniB/PIx/MIx over MiniB/PIx by batch size."""
    sizes = [n for n in run.sizes(stream) if 1 < n <= most]
    return {n: run.rate(stream, MINIB_MIX, n) / run.rate(stream, MINIB, n) for n in sizes}


def mix_catches_up(run: Run) -> Verdict:
    ratios = mix_over_plain(run, "RQ-Z")
    small = [ratio for n, ratio in ratios.items() if n <= 500]
    worse = bool(small) and min(small) < 1 / SAME and max(small) <= SAME
    last = ratios[max(ratios)]
    text = f"with / without message index at {listed(ratios)}"
    return worse and last > 1 / SAME, f"{text} (agrees if worse up to 500, equal at the last)"


def largest(run: Run, stream: str) -> tuple[float, str]:
    ratios = run.speedups(stream, MINIB) | {}
    mixed = run.speedups(stream, MINIB_MIX)
    best = max([*ratios.items(), *mixed.items()], key=lambda pair: pair[1])
    return best[1], f"largest speed-up of minibatching on {stream}: {best[1]:.2f} at {best[0]:,}"


def rq_u(run: Run) -> Verdict:
    most, text = largest(run, "RQ-U")
    return 1.5 <= most <= 2.7, f"{text} (agrees if 1.5 to 2.7)"


def rq_g(run: Run) -> Verdict:
    most, text = largest(run, "RQ-G")
    return 4.9 <= most <= 8.7, f"{text} (agrees if 4.9 to 8.7)"


def mix_earlier(run: Run) -> Verdict:
    first = {}
    for stream in ("RQ-Z", "RQ-G", "RQ-U"):
        pays = [n for n, ratio in mix_over_plain(run, stream).items() if ratio >= 1]
        first[stream] = min(pays, default=None)
    words = {stream: f"{n:,}" if n else "never" for stream, n in first.items()}
    text = ", ".join(f"{stream} {word}" for stream, word in words.items())
    last = first["RQ-Z"] or 1 << 60
    earlier = all(first[stream] and first[stream] < last for stream in ("RQ-G", "RQ-U"))
    return earlier, f"smallest batch at which the message index pays: {text}"


def pq_unbatched(run: Run) -> Verdict:
    n = max(run.sizes("PQ"))
    ratio = run.rate("PQ", UNBATCHED, n) / run.rate("RQ-Z", UNBATCHED, n)
    return ratio >= 2.5, f"unbatched, PQ / RQ-Z: {ratio:.2f} (the paper: 5.1; agrees if over 2.5)"


def pq_minib(run: Run) -> Verdict:
    most, text = largest(run, "PQ")
    return most > 4, f"{text} (agrees if above 4)"


# Tables 2 to 4 -----------------------------------------------------------------------------------


def seconds(run: Run, contestant: str, batch_size: int, *stages: str) -> float:
    """Seconds in stages for 10,000 messages of RQ-Z."""
    cell = run.cell("RQ-Z", contestant, batch_size)
    return sum(cell.stage_s(stage, 10_000) for stage in stages)


def singly(run: Run, batch_size: int, stage: str) -> float:
    """Seconds in a stage when messages are matched one by one.

    Where unbatched matching is one piece, minibatches of one message tell its stages.
    """
    for name in (UNBATCHED, "minibatches of one"):
        spent = seconds(run, name, batch_size, stage)
        if spent:
            return spent
    raise NoData


def whole(run: Run, contestant: str, batch_size: int) -> float:
    return 10_000 / run.rate("RQ-Z", contestant, batch_size)


def sorting(run: Run) -> Verdict:
    shares = {n: seconds(run, MINIB, n, "group") / whole(run, MINIB, n) for n in (SMALL, LARGE)}
    text = ", ".join(f"at {n:,} {share:.1%}" for n, share in shares.items())
    return max(shares.values()) <= 0.05, f"share of grouping in MiniB/PIx {text} (agrees if ≤ 5 %)"


def probes(run: Run) -> Verdict:
    single = singly(run, LARGE, "probe")
    ours = seconds(run, MINIB, LARGE, "probe")
    text = f"probing for 10,000 messages: {single:.3g} s singly, {ours:.3g} s MiniB/PIx at 5,000"
    return ours <= 0.2 * single, f"{text} (agrees if a fifth or less)"


def full_postfilter(run: Run) -> Verdict:
    single = whole(run, UNBATCHED, SMALL)
    ours = seconds(run, FULL, SMALL, "postfilter")
    text = f"at 75: postfilter of Full/PIx {ours:.3g} s, all of unbatched {single:.3g} s"
    return ours > single, f"{text} (agrees if more)"


def minib_postfilter(run: Run) -> Verdict:
    single = {n: singly(run, n, "postfilter") for n in (SMALL, LARGE)}
    ours = {n: seconds(run, MINIB, n, "postfilter") for n in (SMALL, LARGE)}
    text = ", ".join(f"at {n:,} {ours[n]:.3g} s for {single[n]:.3g} s" for n in ours)
    fine = all(ours[n] <= 1.5 * single[n] for n in ours)
    return fine, f"postfilter of MiniB/PIx and singly: {text} (agrees if up to 1.5 ×)"


def mix_costs(run: Run) -> Verdict:
    ratios = {n: run.rate("RQ-Z", MINIB_MIX, n) / run.rate("RQ-Z", MINIB, n) for n in (75, 5_000)}
    return max(ratios.values()) <= SAME, (
        f"with / without message index at {listed(ratios)} (agrees if up to {SAME})"
    )


def scaleup(run: Run) -> Verdict:
    chosen = run.parameters["scaleup"]["batch_sizes"]
    ratios = {n: r for n, r in run.speedups("RQ-Z", MINIB).items() if n in chosen}
    steps = list(ratios.values())
    if len(steps) < 2:
        raise NoData
    grows = all(later > earlier / SAME for earlier, later in zip(steps, steps[1:], strict=False))
    enough = steps[-1] > 1.5 * steps[0]
    text = f"MiniB/PIx / unbatched at {listed(ratios)}"
    return grows and enough, f"{text} (agrees if it never falls by 5 %, and grows 1.5 ×)"


def mix_100k(run: Run) -> Verdict:
    speedup = run.speedup("RQ-Z", MINIB_MIX, 100_000)
    ratio = run.rate("RQ-Z", MINIB_MIX, 100_000) / run.rate("RQ-Z", MINIB, 100_000)
    text = f"at 100,000: {speedup:.2f} × unbatched, {ratio:.2f} × MiniB/PIx"
    return speedup >= 10 and ratio >= 1.1, f"{text} (agrees if 10 and 1.1 or more)"


# Figures 8 and 9 ---------------------------------------------------------------------------------


def against(run: Run, method: str, *rivals: str) -> dict[int, float]:
    """A grouping over the best of others by batch size, each with its best setting."""
    return {
        n: run.best(method, n).throughput / max(run.best(rival, n).throughput for rival in rivals)
        for n in run.grouped_sizes("grouping")
    }


def fix_no(run: Run) -> Verdict:
    ratios = against(run, "Fix No", "Val Att 1", "Val Att 2")
    text = f"Fix No / better of Val Att 1 and 2 at {listed(ratios)}"
    return min(ratios.values()) > 1, f"{text} (agrees if all above 1)"


def val_att_1(run: Run) -> Verdict:
    ratios = against(run, "Val Att 1", "Fix No", "Val Att 2", "Val Att 2+")
    first, *_, last = ratios.values()
    text = f"Val Att 1 / best other at {listed(ratios)}"
    return first >= 0.9 and last < 0.9 * first, f"{text} (agrees if 0.9 at first, then less)"


def val_att_2(run: Run) -> Verdict:
    ratios = against(run, "Val Att 2", "Fix No", "Val Att 1", "Val Att 2+")
    first, *_, last = ratios.values()
    text = f"Val Att 2 / best other at {listed(ratios)}"
    lower = max(ratios.values()) < 1 and first <= last
    return lower, f"{text} (agrees if below 1, and most so at first)"


def val_att_2_plus(run: Run) -> Verdict:
    ratios = against(run, "Val Att 2+", "Fix No", "Val Att 1", "Val Att 2")
    text = f"Val Att 2+ / best other at {listed(ratios)}"
    ahead = all(1 / SAME < ratio < 1.5 for ratio in ratios.values()) and max(ratios.values()) > 1
    return ahead, f"{text} (agrees if first or within 5 %, lead below 1.5)"


def tuning(run: Run, method: str) -> list[tuple[float, float]]:
    """(mean minibatch, throughput) of a grouping at the batch size of Figure 9."""
    (batch_size,) = run.grouped_sizes("sensitivity")
    cells = run.settings("sensitivity", method, batch_size)
    if len(cells) < 3:
        raise NoData
    return [(cell.minibatch, cell.throughput) for cell in cells]


def one_peak(curve: list[tuple[float, float]]) -> bool:
    """Rises to its maximum and falls after it, but for differences of 5 %."""
    rates = [rate for _, rate in curve]
    top = rates.index(max(rates))
    rising = all(b > a / SAME for a, b in zip(rates[:top], rates[1 : top + 1], strict=True))
    falling = all(b < a * SAME for a, b in zip(rates[top:-1], rates[top + 1 :], strict=True))
    return rising and falling


def peak(curve: list[tuple[float, float]]) -> str:
    size, rate = max(curve, key=lambda point: point[1])
    return f"{number(rate)} messages/s at {number(size)}"


def single_maximum(run: Run) -> Verdict:
    curves = {method: tuning(run, method) for method in ("Fix No", "Val Att 2+")}
    text = ", ".join(f"{method} {peak(curve)}" for method, curve in curves.items())
    fine = all(one_peak(curve) for curve in curves.values())
    return fine, f"{text} (agrees if it rises before and falls after, but for 5 %)"


def fix_no_lower(run: Run) -> Verdict:
    fixed, by_value = (max(r for _, r in tuning(run, m)) for m in ("Fix No", "Val Att 2+"))
    return fixed < by_value, f"best of Fix No / best of Val Att 2+: {fixed / by_value:.2f}"


def fix_no_gradual(run: Run) -> Verdict:
    left = {}
    for method in ("Fix No", "Val Att 2+"):
        curve = tuning(run, method)
        size, rate = max(curve, key=lambda point: point[1])
        beyond = [(s, r) for s, r in curve if s >= 3 * size]
        if not beyond:
            raise NoData
        left[method] = beyond[0][1] / rate
    text = ", ".join(f"{method} {share:.2f}" for method, share in left.items())
    steep = left["Val Att 2+"] < 0.9 * left["Fix No"]
    return steep, f"throughput at thrice the best size / best: {text} (agrees if much less)"


# Tables 5 and 6 ----------------------------------------------------------------------------------


def low_latency(run: Run) -> Verdict:
    allowed = within(run.speeds(), 0.010)
    text = f"{allowed.speedup:.2f} × in batches of {allowed.batch_size:,}"
    return allowed.speedup <= 1.3, f"{text} (agrees if 1.3 or less)"


def high_latency(run: Run) -> Verdict:
    latencies = run.parameters["latency"]["latencies_ms"]
    speedups = [within(run.speeds(), ms / 1e3).speedup for ms in latencies]
    text = " → ".join(f"{speedup:.2f}" for speedup in speedups)
    grows = all(a <= b for a, b in zip(speedups, speedups[1:], strict=False))
    return grows and speedups[-1] >= 6, f"{text} (agrees if it grows to 6 or more)"


def calmed(run: Run, burst_ms: float) -> tuple[float, float]:
    """How many times lower the average and the maximum latency of a burst are when batched."""
    speeds = run.speeds()
    rate = run.parameters["latency"]["overload"] * speeds.single
    single, batched = (burst(speeds, rate, burst_ms / 1e3, how) for how in (False, True))
    return single.average_ms / batched.average_ms, single.most_ms / batched.most_ms


def short_burst(run: Run) -> Verdict:
    average, most = calmed(run, 10)
    text = f"10 ms: average {average:.2f} × lower, maximum {most:.2f} ×"
    return average <= 1.5 and most <= 1.8, f"{text} (agrees if up to 1.5 and 1.8)"


def long_burst(run: Run) -> Verdict:
    average, most = calmed(run, 10_000)
    text = f"10,000 ms: average {average:.1f} × lower, maximum {most:.1f} ×"
    return min(average, most) > 10, f"{text} (agrees if more than 10)"


ABOUT: dict[str, tuple[Callable[[Run], Verdict], ...]] = {
    "strategies": (full_pix, full_mix_small, full_mix_peak, full_mix_drop, minib_best, minib_150)
    + (minib_10000, mix_catches_up, rq_u, rq_g, mix_earlier, pq_unbatched, pq_minib),
    "breakdown": (sorting, probes, full_postfilter, minib_postfilter, mix_costs),
    "scaleup": (scaleup, mix_100k),
    "grouping": (fix_no, val_att_1, val_att_2, val_att_2_plus),
    "sensitivity": (single_maximum, fix_no_lower, fix_no_gradual),
    "latency": (low_latency, high_latency),
    "burst": (short_burst, long_burst),
}
CHECKS = {check.__name__: check for checks in ABOUT.values() for check in checks}
