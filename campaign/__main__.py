"""Run a campaign, print its table, and exit with 1 if anything ended as it should not."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from campaign import bases
from campaign.families import FAMILIES, SHARES
from campaign.processes import prepare
from campaign.verdicts import Result, table


def main() -> int:
    """Read the arguments and carry the campaign out."""
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to go on (default 10)")
    parser.add_argument("--attempts", type=int, default=None, help="stop after so many attempts")
    parser.add_argument("--seed", type=int, default=0, help="of all random choices (default 0)")
    parser.add_argument("--family", choices=list(FAMILIES), help="attempts of this kind only")
    parser.add_argument("--number", type=int, help="this attempt of the family only")
    parser.add_argument("--start", type=int, default=0, help="leave out so many attempts, to go on where one ended")
    parser.add_argument("--keep", action="store_true", help="keep the folders of attempts that went wrong")
    given = parser.parse_args()
    prepare()
    results: dict[str, list[Result]] = {family: [] for family in FAMILIES}
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        home = Path(name)
        sound = bases.make(home)
        deadline = time.monotonic() + 60 * given.minutes
        order = islice(_order(given.family, given.number), given.start, None)
        for done, (family, number) in enumerate(order):
            if time.monotonic() > deadline or (given.attempts is not None and done >= given.attempts):
                break
            folder = home / f"{family}-{number}"
            folder.mkdir()
            rng = np.random.default_rng([given.seed, list(FAMILIES).index(family), number])
            result = FAMILIES[family](folder, sound, rng)
            results[family].append(result)
            if not result.verdict.is_good:
                print(
                    f"{family} {number}: {result.verdict.value}: {result.attempt}\n    {_short(result.seen)}",
                    flush=True,
                )
                if given.keep:
                    shutil.copytree(folder, Path(f"campaign-{family}-{number}"), symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
    print(table({family: found for family, found in results.items() if found}))
    bad = sum(not result.verdict.is_good for found in results.values() for result in found)
    total = sum(map(len, results.values()))
    print(f"{total - bad} passed, {bad} failed")
    if given.number is None:
        print(f"the next ones: --seed {given.seed} --start {given.start + total}")
    return 1 if bad or not total else 0


def _order(family: str | None, number: int | None) -> Iterator[tuple[str, int]]:
    """Yield family and number of attempt after attempt: rounds of all families, for ever."""
    if number is not None:
        yield family or next(iter(FAMILIES)), number
        return
    shares = SHARES if family is None else {family: 1}
    counts = dict.fromkeys(shares, 0)
    while True:
        for name, share in shares.items():
            for _ in range(share):
                yield name, counts[name]
                counts[name] += 1


def _short(text: str) -> str:
    return " / ".join(text.splitlines()[-4:])[-600:]


if __name__ == "__main__":
    sys.exit(main())
