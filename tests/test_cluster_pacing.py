"""Ratio and staleness by rule: by hand, and for random speeds of many actors without any of the machinery."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from revalued.training.actors.block import Ticket
from revalued.training.actors.pacing import Pace
from run_helpers import quick_config

PACE = Pace.of(quick_config(actors=4, num_envs=5, block_steps=3, env_steps=1000, warmup_env_steps=100))


def ticket(actor: int, version: int, max_updates: int = 3) -> Ticket:
    return Ticket(actor, 0, 0, version, env_steps=0, num_steps=3, max_updates=max_updates)


def test_numbers_of_a_configuration() -> None:
    assert PACE.max_staleness == 2 * 4 * 3  # blocks of 15 interactions pay for 3 updates
    assert not PACE.in_order
    assert Pace.of(quick_config(actors=1)).in_order
    assert Pace.of(quick_config(actors=4, max_staleness=7)).max_staleness == 7
    assert [PACE.updates_paid(env_steps) for env_steps in (0, 99, 104, 105, 200)] == [0, 0, 0, 1, 20]
    assert [PACE.max_updates(steps) for steps in (1, 2, 3)] == [1, 2, 3]
    assert replace(PACE, lanes_per_actor=2).max_updates(3) == 2  # 6 interactions may fall across two payments


def test_what_is_left_to_ask_for() -> None:
    assert PACE.next_steps(0, []) == 3
    assert PACE.next_steps(960, [ticket(0, 0), ticket(1, 0)]) == 2
    assert PACE.next_steps(970, [ticket(0, 0), ticket(1, 0)]) == 0
    assert PACE.next_steps(999, []) == 1


def test_a_block_may_overtake_only_while_the_older_ones_have_time() -> None:
    pace = replace(PACE, max_staleness=9)
    old, middle, new = ticket(0, 10), ticket(1, 10), ticket(2, 12)
    open_tickets = [old, middle, new]
    # after 13 updates: new pays for 3 (16), then old is 6 behind and pays for 3, then middle is 9 behind: just in time
    assert pace.may_take(new, 13, open_tickets)
    assert not pace.may_take(new, 14, open_tickets)
    assert pace.may_take(middle, 16, open_tickets)  # then old is 9 behind
    assert not pace.may_take(middle, 17, open_tickets)
    assert pace.may_take(old, 10**6, open_tickets)  # the oldest may always come
    ordered = replace(pace, in_order=True)
    assert [ordered.may_take(each, 13, open_tickets) for each in open_tickets] == [True, False, False]
    with pytest.raises(ValueError, match="not open"):
        pace.may_take(ticket(3, 0), 0, [])


def test_a_block_is_asked_for_only_if_it_can_come_in_time() -> None:
    pace = replace(PACE, max_staleness=9)
    assert pace.may_ask(10, 13, [ticket(0, 10), ticket(1, 10)])  # 13 + 3 + 3 updates before it: 9 behind
    assert not pace.may_ask(10, 14, [ticket(0, 10), ticket(1, 10)])
    assert replace(pace, max_staleness=0).may_ask(13, 13, [])


@pytest.mark.parametrize(("bound", "ages"), [(80, [False, False, True]), (0, [False, True, True])])
def test_weights_are_published_when_they_are_an_eighth_of_the_bound_old(bound: int, ages: list[bool]) -> None:
    pace = replace(PACE, max_staleness=bound)
    assert [pace.wants_new_version(100, updates) for updates in (100, 109, 110)] == ages


@pytest.mark.parametrize("bound", [0, 1, 5, 12, 24, 200])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_any_speeds_keep_the_bound_and_never_get_stuck(bound: int, seed: int) -> None:
    """A learner and its actors as nothing but counters; actor 0 is a hundred times slower than the rest."""
    rng = np.random.default_rng([seed, bound])
    pace = replace(PACE, max_staleness=bound, env_steps=2_500)
    env_steps, updates, version, open_tickets, arrived = 0, 0, 0, list[Ticket](), set[int]()
    worst, polls = 0, 0
    while env_steps < pace.env_steps:
        polls += 1
        assert polls < 100_000, "stuck"
        for actor in set(range(4)) - {each.actor for each in open_tickets}:
            if pace.wants_new_version(version, updates):
                version = updates
            steps = pace.next_steps(env_steps, open_tickets)
            if steps and pace.may_ask(version, pace.updates_paid(env_steps), open_tickets):
                open_tickets.append(Ticket(actor, 0, 0, version, 0, steps, pace.max_updates(steps)))
        arrived |= {each.actor for each in open_tickets if rng.random() < (0.005 if each.actor == 0 else 0.5)}
        ready = [each for each in open_tickets if each.actor in arrived]
        taken = next((each for each in ready if pace.may_take(each, updates, open_tickets)), None)
        if taken is not None:
            worst = max(worst, updates - taken.version)
            open_tickets.remove(taken)
            arrived.remove(taken.actor)
            env_steps += taken.num_steps * pace.lanes_per_actor
            assert pace.updates_paid(env_steps) - updates <= taken.max_updates
            updates = pace.updates_paid(env_steps)
    assert worst <= bound
    assert worst >= bound // 2 or bound == 200  # the bound is what holds the fast ones back
    assert env_steps == 2_500
