"""Makes tables of what was measured."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from watched import our_sides, sides
from watched.figures import figures

TITLES = {**sides.TITLES, **our_sides.TITLES}
REFERENCE, FLOOR = "wandb_gradients", "floor"
Row = dict[str, Any]

TIMES = (
    f"{'milliseconds a step':32}{'plain':>9}{'watched':>9}{'added (95 %)':>31}{'median overhead % (95 %)':>27}"
    f"{'mean overhead % (95 %)':>27}{'x wandb':>9}{'x floor':>9}{'us a tensor':>13}"
)
BESIDE = (
    f"{'beside the loop':32}{'plain slowed %':>16}{'children, cores':>17}{'MB set up':>11}{'MB grown':>10}"
    f"{'own figure %':>14}{'lag':>9}{'drained in s':>14}{'bytes a histogram':>19}{'same weights':>14}"
)
SCALING = (
    f"{'scaling':14}{'':32}{'tensors':>9}{'million values':>16}{'plain':>9}{'added ms (95 %)':>31}"
    f"{'us a tensor':>13}{'ms a million':>14}"
)


def rows_of(found: Mapping[str, Row]) -> dict[str, Row]:
    """Returns the figures of a case's sides beside what was measured, with every pair's ratio.

    ``wandb_ratio`` and ``floor_ratio`` divide what a step takes longer by what it takes longer with
    ``wandb.watch(log="gradients")`` and with ``torch._foreach_norm``; None where that side is missing.
    """
    rows = {side: _row(side, result) if "error" not in result else result for side, result in found.items()}
    for key, side in (("wandb_ratio", REFERENCE), ("floor_ratio", FLOOR)):
        base = rows.get(side, {}).get("added_ms")
        for row in rows.values():
            if "error" not in row:
                row[key] = None if base is None else row["added_ms"]["value"] / base["value"]
    return rows


def _row(side: str, result: Row) -> Row:
    plain, watched = result["plain_ms"], result["watched_ms"]
    made = asdict(figures(plain, watched, result["quiet_ms"], sampling=side in our_sides.SAMPLING))
    return {
        **result,
        **made,
        "us_a_tensor": made["added_ms"]["value"] * 1e3 / result["tensors"],
        "ms_a_million_values": made["added_ms"]["value"] * 1e6 / result["values"],
        "pairs": [
            {"plain_ms": before, "watched_ms": after, "ratio": after / before}
            for before, after in zip(plain, watched, strict=True)
        ],
    }


def print_case(name: str, rows: Mapping[str, Row]) -> None:
    """Prints a case's two tables: what a step costs, and what happens beside it."""
    measured = {TITLES[side]: row for side, row in rows.items() if "error" not in row}
    size = next(iter(measured.values()), {"tensors": 0, "values": 0})
    print(f"\n{name}: {size['tensors']} tensors, {size['values'] / 1e6:.2f} million values\n{TIMES}")
    for title, row in measured.items():
        print(
            f"{title:32}{row['plain_ms']:9.2f}{row['watched_ms']:9.2f}{_interval(row['added_ms'], 1):>31}"
            f"{_interval(row['median'], 100):>27}{_interval(row['mean'], 100):>27}"
            f"{_number(row['wandb_ratio'], 2):>9}{_number(row['floor_ratio'], 2):>9}{row['us_a_tensor']:13.2f}"
        )
    print(BESIDE)
    for title, row in measured.items():
        print(
            f"{title:32}{row['plain_slowed'] * 100:16.1f}{row['children_cores']:17.2f}"
            f"{row['attached_mb']:11.0f}{row['grown_mb']:10.0f}{_percent(row['own_share']):>14}{_number(row['lag']):>9}{row['drain_s']:14.1f}"
            f"{_number(row['stored_bytes_a_histogram']):>19}{'yes' if row['same_weights'] else 'NO':>14}"
        )
    print_errors(rows)


def print_scaling(cases: Mapping[str, Mapping[str, Row]]) -> None:
    """Prints a line for each case: whether the cost grows with the tensors, and with the values."""
    print(f"\n{SCALING}")
    for name, rows in cases.items():
        for side, row in rows.items():
            if "error" not in row:
                print(
                    f"{name:14}{TITLES[side]:32}{row['tensors']:9}{row['values'] / 1e6:16.2f}{row['plain_ms']:9.2f}"
                    f"{_interval(row['added_ms'], 1):>31}{row['us_a_tensor']:13.2f}{row['ms_a_million_values']:14.3f}"
                )
        print_errors(rows)


def print_errors(rows: Mapping[str, Row]) -> None:
    """Prints why sides could not be measured."""
    for side, row in rows.items():
        if "error" in row:
            print(f"{TITLES[side]:32}not measured: {row['error']}")


def _interval(estimate: Mapping[str, float], unit: float) -> str:
    value, low, high = (estimate[key] * unit for key in ("value", "low", "high"))
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(share: float | None) -> str:
    return _number(share if share is None else share * 100, 2)
