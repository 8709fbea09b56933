"""The line of retries: which transaction has its turn, which give way, and that none waits for ever (I11)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lowtide.engine.transaction.line import Footprint, Line, Place
from lowtide.engine.transaction.read_set import RangeSet
from lowtide.engine.types import Range
from tests.support.patience import PATIENCE, wait_until

LONG = 1e6


def keys(*names: bytes) -> dict[bytes, None]:
    return dict.fromkeys(names)


def footprint(*writes: bytes, read: tuple[bytes, ...] = (), ranges: tuple[Range, ...] = ()) -> Footprint:
    return Footprint(keys(*writes).keys(), [set(read)], RangeSet(ranges))


def place(*writes: bytes, seconds: float = LONG, thread: int = -1) -> Place:
    """A place of another thread, unless it is told whose."""
    found = Place(footprint(*writes), seconds)
    found.thread = thread
    return found


def enter(line: Line, *places: Place) -> None:
    for each in places:
        line.enter(each)


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_commit_disturbs_what_was_written_read_or_scanned() -> None:
    found = footprint(b"w", read=(b"r",), ranges=(Range(b"s", b"t"),))
    assert [key for key in (b"r", b"s5", b"t", b"w", b"z") if found.disturbed_by(keys(key).keys())] == [
        b"r",
        b"s5",
        b"w",
    ]


def test_two_that_only_read_the_same_do_not_meet() -> None:
    one, other = footprint(b"a", read=(b"r",)), footprint(b"b", read=(b"r",))
    assert not one.meets(other)
    assert one.meets(footprint(b"r"))
    assert footprint(b"r").meets(one)


def test_the_first_has_its_turn_at_once_and_one_of_other_keys_beside_it() -> None:
    line, first, other = Line(), place(b"a"), place(b"b")
    enter(line, first, other)
    for each in (first, other):
        line.wait(each, time.monotonic() + PATIENCE)
        assert each.until is not None


def test_turns_come_in_the_order_of_the_places() -> None:
    line = Line()
    places = [place(b"a", bytes([number])) for number in range(5)]
    enter(line, *places)
    had: list[int] = []

    def go(number: int) -> None:
        line.wait(places[number], time.monotonic() + PATIENCE)
        had.append(number)
        line.leave(places[number])

    threads = [started(lambda number=number: go(number)) for number in (3, 1, 4, 2, 0)]  # type: ignore[misc]
    for thread in threads:
        thread.join(PATIENCE)
    assert had == [0, 1, 2, 3, 4]
    assert line.places == ()


def test_a_holder_that_never_leaves_is_passed_over_after_its_time() -> None:
    line, dead, second, third = Line(), place(b"a", seconds=0.01), place(b"a", seconds=0.01), place(b"a")
    enter(line, dead, second, third)
    line.wait(third, time.monotonic() + PATIENCE)
    assert third.until is not None
    assert (dead.left.is_set(), second.left.is_set(), line.places) == (True, True, (third,))


def test_others_give_way_to_a_turn_until_it_ends_and_to_nothing_else() -> None:
    line, holder, waiting = Line(), place(b"a"), place(b"a", b"c")
    enter(line, holder, waiting)
    line.wait(holder, time.monotonic() + PATIENCE)
    assert not line.give_way(keys(b"b").keys(), time.monotonic() + PATIENCE), "other keys"
    assert not line.give_way(keys(b"c").keys(), time.monotonic() + PATIENCE), "one that has no turn yet"
    gave_way: list[bool] = []
    thread = started(lambda: gave_way.append(line.give_way(keys(b"a").keys(), time.monotonic() + PATIENCE)))
    thread.join(0.1)
    assert gave_way == []
    line.leave(holder)
    thread.join(PATIENCE)
    assert gave_way == [True]


def test_giving_way_ends_with_the_time_of_the_turn_and_with_the_own() -> None:
    line, holder = Line(), place(b"a")
    enter(line, holder)
    line.wait(holder, time.monotonic() + PATIENCE)
    assert line.give_way(keys(b"a").keys(), time.monotonic() + 0.01)
    assert not holder.left.is_set()
    holder.until = time.monotonic() + 0.01
    assert line.give_way(keys(b"a").keys(), time.monotonic() + PATIENCE)
    assert (line.places, holder.left.is_set()) == ((), True)


def test_a_thread_that_has_a_place_gives_way_to_no_other() -> None:
    """Else two that have their turns could wait for each other, and a retry inside a retry for itself."""
    line, other, own = Line(), place(b"a"), place(b"b", thread=threading.get_ident())
    enter(line, other, own)
    line.wait(other, time.monotonic() + PATIENCE)
    assert line.has_place()
    assert not line.give_way(keys(b"a", b"b").keys(), time.monotonic() + PATIENCE)


def test_who_waits_for_its_turn_stops_at_its_deadline() -> None:
    line, holder, second = Line(), place(b"a"), place(b"a")
    enter(line, holder, second)
    line.wait(second, time.monotonic() + 0.01)
    assert second.until is None
    thread = started(lambda: line.wait(second, time.monotonic() + PATIENCE))
    wait_until(thread.is_alive)
    line.leave(second)
    line.leave(holder)
    thread.join(PATIENCE)
    assert not thread.is_alive()
