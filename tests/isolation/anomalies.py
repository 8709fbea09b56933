"""The anomalies of Hermitage and of Fekete et al., each written as a story, and which level allows which (I8).

A story starts with ``a = 10, b = 20``, runs its transactions at one level and returns whether the anomaly occurred.
``TABLE`` holds the expected outcomes. That a level *allows* an anomaly is asserted as strictly as that it prevents
one: a table that promises less than the engine keeps is as wrong as one that promises more. docs/isolation.md shows
the same table.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import lowtide
from lowtide import Isolation
from tests.isolation.world import World, commits, delete, get, put, roll_back, rows, scan


class Outcome(enum.Enum):
    """What comes of a story at a level."""

    HAPPENS = "allowed"
    UNSEEN = "stopped"
    """All transactions committed, and the anomaly did not occur."""
    REFUSED = "refused"
    """The anomaly did not occur: a transaction that would have completed it failed with ConflictError."""


class Scene:
    """The world of a story, and the transactions that were refused in it."""

    def __init__(self, world: World, level: Isolation) -> None:
        self._world = world
        self._level = level
        self.refused = False
        self.meanwhile = world.meanwhile
        self.rows = world.rows

    def begin(self, read_only: bool = False) -> lowtide.Transaction:
        return self._world.begin(self._level, read_only)

    def commit(self, tx: lowtide.Transaction) -> bool:
        accepted = commits(tx)
        self.refused = self.refused or not accepted
        self.meanwhile()
        return accepted


def dirty_write_g0(scene: Scene) -> bool:
    """Two transactions write both rows; in the end one row is of the one and one of the other."""
    t1, t2 = scene.begin(), scene.begin()
    put(t1, "a", 11)
    put(t2, "a", 12)
    put(t2, "b", 22)
    scene.commit(t2)
    put(t1, "b", 21)
    scene.commit(t1)
    return scene.rows() not in ({"a": 11, "b": 21}, {"a": 12, "b": 22})


def aborted_read_g1a(scene: Scene) -> bool:
    """A value is read whose transaction then rolls back."""
    t1, t2 = scene.begin(), scene.begin()
    put(t1, "a", 101)
    scene.meanwhile()
    seen = [get(t2, "a")]
    roll_back(t1)
    seen += [get(t2, "a"), rows(t2)["a"]]
    scene.commit(t2)
    return 101 in seen


def intermediate_read_g1b(scene: Scene) -> bool:
    """A value is read that its transaction overwrites before it commits."""
    t1, t2 = scene.begin(), scene.begin()
    put(t1, "a", 101)
    scene.meanwhile()
    seen = [get(t2, "a")]
    put(t1, "a", 11)
    scene.commit(t1)
    seen += [get(t2, "a"), rows(t2)["a"]]
    scene.commit(t2)
    return 101 in seen


def circular_flow_g1c(scene: Scene) -> bool:
    """Each of two transactions reads what the other one wrote."""
    t1, t2 = scene.begin(), scene.begin()
    put(t1, "a", 11)
    put(t2, "b", 22)
    scene.meanwhile()
    seen = get(t1, "b"), get(t2, "a")
    scene.commit(t1)
    scene.commit(t2)
    return seen == (22, 11)


def observed_transaction_vanishes_otv(scene: Scene) -> bool:
    """A reader sees a row of T2, the last to write, and later one as it was before T2."""
    t1, t2, t3 = scene.begin(), scene.begin(), scene.begin()
    put(t1, "a", 11)
    put(t2, "a", 12)
    put(t2, "b", 18)
    seen = [get(t3, "a") == 12]
    put(t1, "b", 19)
    scene.commit(t1)
    seen += [get(t3, "a") == 12, get(t3, "b") == 18]
    scene.commit(t2)
    seen += [get(t3, "b") == 18, get(t3, "a") == 12]
    scene.commit(t3)
    return seen != sorted(seen)


def fuzzy_read_p2(scene: Scene) -> bool:
    """One row is read twice, and differs."""
    t1, t2 = scene.begin(), scene.begin()
    first = get(t1, "a")
    put(t2, "a", 11)
    scene.commit(t2)
    second = get(t1, "a")
    scene.commit(t1)
    return first != second


def fractured_scan(scene: Scene) -> bool:
    """One scan shows a row from before a commit, and one from after it."""
    t1, t2 = scene.begin(), scene.begin()
    entries = scan(t1)
    seen = [next(entries)]
    put(t2, "a", 11)
    put(t2, "b", 21)
    scene.commit(t2)
    seen += entries
    scene.commit(t1)
    return dict(seen) == {"a": 10, "b": 21}


def predicate_many_preceders_pmp(scene: Scene) -> bool:
    """A second query shows a row that the first one should have shown."""
    t1, t2 = scene.begin(), scene.begin()
    assert 30 not in rows(t1).values()
    put(t2, "c", 30)
    scene.commit(t2)
    shown = [key for key, number in scan(t1) if number % 3 == 0]
    scene.commit(t1)
    return shown == ["c"]


def predicate_many_preceders_write(scene: Scene) -> bool:
    """All rows of 20 are deleted, and then there is a row of 20."""
    t1, t2 = scene.begin(), scene.begin()
    victims = [key for key, number in scan(t2) if number == 20]
    for key, number in rows(t1).items():
        put(t1, key, number + 10)
    scene.commit(t1)
    for key in victims:
        delete(t2, key)
    left = [key for key, number in scan(t2) if number == 20]
    scene.commit(t2)
    return left == ["a"]


def lost_update_p4(scene: Scene) -> bool:
    """Two increments of a row make one."""
    t1, t2 = scene.begin(), scene.begin()
    first, second = get(t1, "a"), get(t2, "a")
    assert first == second == 10
    put(t1, "a", 11)
    scene.commit(t1)
    put(t2, "a", 11)
    return scene.commit(t2)


def lost_update_by_scan(scene: Scene) -> bool:
    """As P4, but the row was found by a scan, in reverse."""
    t1, t2 = scene.begin(), scene.begin()
    found = [dict(scan(tx, reverse=True)) for tx in (t1, t2)]
    put(t1, "a", found[0]["a"] + 1)
    put(t2, "a", found[1]["a"] + 1)
    scene.commit(t2)
    return scene.commit(t1) and scene.rows()["a"] == 11


def read_skew_g_single(scene: Scene) -> bool:
    """Of two rows that are written together one is read before and one after."""
    t1, t2 = scene.begin(), scene.begin()
    seen_a = get(t1, "a")
    put(t2, "a", 12)
    put(t2, "b", 18)
    scene.commit(t2)
    seen_b = get(t1, "b")
    scene.commit(t1)
    return (seen_a, seen_b) == (10, 18)


def read_skew_by_predicate(scene: Scene) -> bool:
    """Two queries with different predicates show one row in two states."""
    t1, t2 = scene.begin(), scene.begin()
    fives = [key for key, number in scan(t1) if number % 5 == 0]
    put(t2, "a", 12)
    scene.commit(t2)
    threes = [key for key, number in scan(t1) if number % 3 == 0]
    scene.commit(t1)
    return fives == ["a", "b"] and threes == ["a"]


def read_skew_write(scene: Scene) -> bool:
    """A row is read, others write both, and the reader deletes by a predicate that half of its reads contradict."""
    t1, t2 = scene.begin(), scene.begin()
    assert get(t1, "a") == 10
    put(t2, "a", 12)
    put(t2, "b", 18)
    scene.commit(t2)
    victims = [key for key, number in scan(t1) if number == 20]
    for key in victims:
        delete(t1, key)
    return scene.commit(t1) or not victims


def read_skew_write_first(scene: Scene) -> bool:
    """The same, where the delete is decided before the others commit."""
    t1, t2 = scene.begin(), scene.begin()
    assert get(t1, "a") == 10
    assert rows(t2) == {"a": 10, "b": 20}
    put(t2, "a", 12)
    delete(t1, "b")
    put(t2, "b", 18)
    scene.commit(t2)
    return scene.commit(t1)


def write_skew_g2_item(scene: Scene) -> bool:
    """Each reads both rows and writes one: neither sees the other, and no key is written twice (C7)."""
    t1, t2 = scene.begin(), scene.begin()
    for tx in (t1, t2):
        assert (get(tx, "a"), get(tx, "b")) == (10, 20)
    put(t1, "a", 11)
    put(t2, "b", 21)
    return scene.commit(t1) and scene.commit(t2)


def write_skew_of_ranges_g2(scene: Scene) -> bool:
    """Each finds no row by a predicate, and inserts one."""
    t1, t2 = scene.begin(), scene.begin()
    for tx in (t1, t2):
        assert not [key for key, number in scan(tx) if number % 3 == 0]
    put(t1, "c", 30)
    put(t2, "d", 42)
    return scene.commit(t1) and scene.commit(t2)


def two_antidependencies_g2(scene: Scene) -> bool:
    """T1 reads all; T2 changes b; T3 sees that, but not what T1 then does to a."""
    t1 = scene.begin()
    assert rows(t1) == {"a": 10, "b": 20}
    t2 = scene.begin()
    put(t2, "b", (get(t2, "b") or 0) + 5)
    scene.commit(t2)
    t3 = scene.begin()
    assert rows(t3) == {"a": 10, "b": 25}
    scene.commit(t3)
    put(t1, "a", 0)
    return scene.commit(t1)


def read_only_anomaly(scene: Scene) -> bool:
    """Fekete, O'Neil and O'Neil 2004: without the reader T3 the outcome could be explained, with it it cannot.

    T2 withdraws 11 and a penalty of 1, because it does not see the deposit of T1; T3 has seen the deposit and no
    withdrawal.
    """
    t2 = scene.begin()
    balance = (get(t2, "a") or 0) + (get(t2, "b") or 0)
    t1 = scene.begin()
    put(t1, "b", (get(t1, "b") or 0) + 20)
    scene.commit(t1)
    t3 = scene.begin(read_only=True)
    assert (get(t3, "a"), get(t3, "b")) == (10, 40)
    scene.commit(t3)
    put(t2, "a", 10 - 31 - (1 if balance < 31 else 0))
    return scene.commit(t2) and scene.rows() == {"a": -22, "b": 40}


Story = Callable[[Scene], bool]

_H, _U, _R = Outcome.HAPPENS, Outcome.UNSEEN, Outcome.REFUSED

TABLE: dict[Story, tuple[Outcome, Outcome, Outcome, Outcome, Outcome]] = {
    # in the order of the levels: NONE, READ_COMMITTED, SNAPSHOT_READ, SNAPSHOT, SERIALIZABLE
    dirty_write_g0: (_H, _U, _U, _R, _R),
    aborted_read_g1a: (_H, _U, _U, _U, _U),
    intermediate_read_g1b: (_H, _U, _U, _U, _U),
    circular_flow_g1c: (_H, _U, _U, _U, _R),
    observed_transaction_vanishes_otv: (_H, _U, _U, _R, _R),
    fractured_scan: (_H, _H, _U, _U, _U),
    fuzzy_read_p2: (_H, _H, _H, _U, _U),
    predicate_many_preceders_pmp: (_H, _H, _H, _U, _U),
    predicate_many_preceders_write: (_H, _H, _H, _R, _R),
    lost_update_p4: (_H, _H, _H, _R, _R),
    lost_update_by_scan: (_H, _H, _H, _R, _R),
    read_skew_g_single: (_H, _H, _H, _U, _U),
    read_skew_by_predicate: (_H, _H, _H, _U, _U),
    read_skew_write: (_H, _H, _H, _R, _R),
    read_skew_write_first: (_H, _H, _H, _R, _R),
    write_skew_g2_item: (_H, _H, _H, _H, _R),
    write_skew_of_ranges_g2: (_H, _H, _H, _H, _R),
    two_antidependencies_g2: (_H, _H, _H, _H, _R),
    read_only_anomaly: (_H, _H, _H, _H, _R),
}


def outcome_of(story: Story, world: World, level: Isolation) -> Outcome:
    """Tell ``story`` at ``level``."""
    world.fill(a=10, b=20)
    scene = Scene(world, level)
    if story(scene):
        return Outcome.HAPPENS
    return Outcome.REFUSED if scene.refused else Outcome.UNSEEN
