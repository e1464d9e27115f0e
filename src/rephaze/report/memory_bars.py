"""Memory of each device of a pipeline, stacked by purpose, against what a chip has."""

from __future__ import annotations

from rephaze.report.figure import Figure, Series
from rephaze.report.svg import WIDTH, Scale, drawing, label, shown, tag, y_axis
from rephaze.types.plan_account import PlanAccount
from rephaze.units import GIB

LEFT, RIGHT, TOP, HEIGHT = 58.0, 20.0, 30.0, 240.0
MOST_WIDE = 90.0
MOST_LABELS = 24
FAR_BELOW = 0.2
"""Memory filled to less than this part is drawn without the line at its size: bars would be slivers."""

PURPOSES = {
    "weights_bytes": ("weights", "1"),
    "gradients_bytes": ("gradients", "6"),
    "state_bytes": ("optimizer state", "4"),
    "kept_bytes": ("kept activations", "3"),
    "replay_bytes": ("replayed activations", "2"),
    "working_bytes": ("working set", "7"),
}


def memory_figure(account: PlanAccount, hbm_bytes: int) -> Figure:
    """A stack a device, the line at what a chip has.

    Args:
        account: Of the plan.
        hbm_bytes: Of one chip.
    """
    count = len(account.devices)
    fullest = max(device.total_bytes for device in account.devices)
    is_far = fullest < FAR_BELOW * hbm_bytes
    most = (1.3 * fullest if is_far else max(hbm_bytes, fullest)) / GIB
    bottom = TOP + HEIGHT
    scale = Scale(low=0.0, high=1.06 * most, begin=bottom, end=TOP)
    pitch = (WIDTH - LEFT - RIGHT) / count
    wide = min(0.78 * pitch, MOST_WIDE)
    body, data, seen = [y_axis(scale, LEFT, WIDTH - RIGHT, "GiB of a chip")], [], {}
    every = -(-count // MOST_LABELS)
    for at, device in enumerate(account.devices):
        x, below = LEFT + pitch * (at + 0.5) - wide / 2, 0.0
        for name, (words, colour) in PURPOSES.items():
            part = getattr(device, name) / GIB
            data.append([account.model, at + 1, words, part])
            if part <= 0:
                continue
            seen[name] = Series(key=name, name=words, colour=colour)
            said = f"device {at + 1} of {count}\n{words}: {part:,.3g} GiB, {part * GIB / hbm_bytes:.1%} of HBM"
            body.append(
                tag(
                    "rect",
                    class_=f"f{colour} edge",
                    data_s=name,
                    data_t=said,
                    x=x,
                    y=scale(below + part),
                    width=wide,
                    height=scale(below) - scale(below + part),
                )
            )
            below += part
        if at % every == 0:
            body.append(label(x + wide / 2, bottom + 16, str(at + 1), "middle", class_="tick"))
    line, has = TOP if is_far else scale(hbm_bytes / GIB), f"HBM of a chip: {shown(hbm_bytes / GIB)} GiB"
    if not is_far:
        body.append(tag("line", class_="limit", x1=LEFT, x2=WIDTH - RIGHT, y1=line, y2=line))
    body.append(label(WIDTH - RIGHT, line - 5, f"{has}, far above" if is_far else has, "end", class_="bad"))
    body.append(label((LEFT + WIDTH - RIGHT) / 2, bottom + 34, "device of a pipeline", "middle", class_="axis"))
    return Figure(
        name=f"memory-{account.model}",
        title=f"Memory of each device for {account.model}",
        svg=drawing(bottom + 42, "".join(body), f"Memory by purpose for {account.model}"),
        header=("model", "device", "purpose", "memory_gib"),
        rows=data,
        legend=[seen[name] for name in PURPOSES if name in seen],
        note=(
            f"The fullest device holds {fullest / GIB:,.3g} of {hbm_bytes / GIB:,.4g} GiB: "
            f"{(hbm_bytes - fullest) / GIB:,.3g} GiB, {1 - fullest / hbm_bytes:.0%}, are free."
        ),
    )
