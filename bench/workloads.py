"""The workloads that all stores are compared on. A workload is a step that threads repeat until their time is up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from bench.documents import Dataset, change, decode, decode_all, gather_all
from bench.peers import Durability, Need, Peer, Session
from bench.timing import Worker, rate, run_together

GETS_PER_TRANSACTION = 10
RANGE_LENGTH = 100
BATCH_LENGTH = 10_000

# Runs operations on the documents with these numbers; returns how many operations that were.
Step = Callable[[Dataset, Session, Sequence[int]], int]
# The numbers that one thread works on, made from a seed and cut into the portions of one step each.
Portions = Callable[[Dataset, int], list[Sequence[int]]]


@dataclass(frozen=True)
class Sample:
    """One store's outcome in one round."""

    rate: float  # operations per second
    beside: float | None  # operations per second of the writer that ran beside them
    modified: int  # read-modify-writes in all, warm-up included


@dataclass(frozen=True)
class Role:
    """What one kind of thread does."""

    step: Step
    portions: Portions
    threads: int
    modifies: bool = False


@dataclass(frozen=True)
class Workload:
    name: str  # for the command line
    title: str
    durability: Durability
    roles: tuple[Role, ...]  # the first gives the rate, the second the rate beside it
    unit: str = "operation"

    @property
    def modifies(self) -> bool:
        return any(role.modifies for role in self.roles)

    @property
    def writes(self) -> bool:
        return self.modifies or self.puts

    @property
    def puts(self) -> bool:
        return any(role.step is put_batch for role in self.roles)

    @property
    def needs(self) -> frozenset[Need]:
        """What a store must be able to do, beyond single documents from one thread."""
        needs: set[Need] = set()
        if self.durability == "unsynced":
            needs.add("unsynced")
        if any(role.step in (read_range, scan, scan_into_list) for role in self.roles):
            needs.add("order")
        if sum(role.threads for role in self.roles) > 1:
            needs.add("threads")
        if self.puts:
            needs.add("batches")
        return frozenset(needs)


# -- steps ------------------------------------------------------------------------------------------------------------


def read_each(dataset: Dataset, session: Session, numbers: Sequence[int]) -> int:
    keys, read = dataset.keys, session.read
    for number in numbers:
        decode(read(keys[number]))
    return len(numbers)


def read_each_directly(dataset: Dataset, session: Session, numbers: Sequence[int]) -> int:
    keys, read = dataset.keys, session.read_directly
    for number in numbers:
        decode(read(keys[number]))
    return len(numbers)


def read_several(dataset: Dataset, session: Session, numbers: Sequence[int]) -> int:
    keys = dataset.keys
    for value in session.read_several([keys[number] for number in numbers]):
        decode(value)
    return 1


def read_range(dataset: Dataset, session: Session, numbers: Sequence[int]) -> int:
    keys = dataset.keys
    for number in numbers:
        found = session.read_range(keys[number], keys[number + RANGE_LENGTH], RANGE_LENGTH, decode_all)
        if found != RANGE_LENGTH:
            raise AssertionError(f"a range of {RANGE_LENGTH} documents gave {found}")
    return len(numbers)


def scan(dataset: Dataset, session: Session, numbers: Sequence[int]) -> int:
    found = session.scan(decode_all)
    if found != dataset.count:
        raise AssertionError(f"a scan of {dataset.count} documents gave {found}")
    return found


def scan_into_list(dataset: Dataset, session: Session, numbers: Sequence[int]) -> int:
    found = session.scan(gather_all)
    if found != dataset.count:
        raise AssertionError(f"a scan of {dataset.count} documents gave {found}")
    return found


def put_batch(dataset: Dataset, session: Session, numbers: Sequence[int]) -> int:
    session.put_all(dataset.changed_pairs(numbers))
    return len(numbers)


def modify_each(dataset: Dataset, session: Session, numbers: Sequence[int]) -> int:
    keys, modify = dataset.keys, session.modify
    for number in numbers:
        modify(keys[number], change)
    return len(numbers)


# -- portions ---------------------------------------------------------------------------------------------------------


def random_portions(length: int, count: int, margin: int = 0) -> Portions:
    """``count`` portions of ``length`` random numbers, none of them in the last ``margin`` documents."""

    def portions(dataset: Dataset, seed: int) -> list[Sequence[int]]:
        numbers = dataset.random_numbers(seed, length * count, dataset.count - margin)
        return [numbers[start : start + length] for start in range(0, len(numbers), length)]

    return portions


def one_empty_portion(dataset: Dataset, seed: int) -> list[Sequence[int]]:
    return [()]


def random_batches(dataset: Dataset, seed: int) -> list[Sequence[int]]:
    return [dataset.random_numbers(seed * 8 + part, dataset.batch) for part in range(8)]


def ascending_batches(dataset: Dataset, seed: int) -> list[Sequence[int]]:
    starts = dataset.random_numbers(seed, 8, dataset.count - dataset.batch + 1)
    return [range(start, start + dataset.batch) for start in starts]


# -- timing -----------------------------------------------------------------------------------------------------------


def measure(workload: Workload, peer: Peer, dataset: Dataset, seconds: float, seed: int) -> Sample:
    """Run the workload on one store for the given time, after a warm-up that is not counted."""

    def worker(role: Role, thread_seed: int) -> Worker:
        def prepare(session: Session) -> tuple[Callable[[Sequence[int]], int], list[Sequence[int]]]:
            return lambda numbers: role.step(dataset, session, numbers), role.portions(dataset, thread_seed)

        return prepare

    workers = [
        worker(role, seed * 64 + at * 16 + number)
        for at, role in enumerate(workload.roles)
        for number in range(role.threads)
    ]
    waiting = iter(run_together(peer, workers, seconds))
    done = [(role, list(islice(waiting, role.threads))) for role in workload.roles]
    rates = [rate(threads) for _, threads in done]
    modified = sum(thread.operations + thread.warm_up for role, threads in done if role.modifies for thread in threads)
    return Sample(rates[0], rates[1] if len(rates) > 1 else None, modified)


# -- the list ---------------------------------------------------------------------------------------------------------

_POINTS = random_portions(128, 256)
_TENS = random_portions(GETS_PER_TRANSACTION, 2048)
_RANGES = random_portions(4, 1024, margin=RANGE_LENGTH)
# A clock reading after each synced transaction costs nothing beside the sync, and a portion must not outlast the time.
_SYNCED = random_portions(1, 8192)
_UNSYNCED = random_portions(16, 4096)
_BESIDE_A_WRITER = random_portions(16, 1024)


def _modifiers(portions: Portions, threads: int) -> Role:
    return Role(modify_each, portions, threads, modifies=True)


WORKLOADS: tuple[Workload, ...] = (
    Workload("point-read", "point read in its own transaction", "synced", (Role(read_each, _POINTS, 1),)),
    Workload("fast-read", "point read, fast path", "synced", (Role(read_each_directly, _POINTS, 1),)),
    Workload("ten-gets", "read-only transaction of 10 gets", "synced", (Role(read_several, _TENS, 1),)),
    Workload("range", "range of 100", "synced", (Role(read_range, _RANGES, 1),)),
    Workload("scan", "full scan, streamed", "synced", (Role(scan, one_empty_portion, 1),), "document"),
    Workload("scan-list", "full scan into a list", "synced", (Role(scan_into_list, one_empty_portion, 1),), "document"),
    Workload("batch", "batch of 10,000 puts, random keys", "synced", (Role(put_batch, random_batches, 1),), "put"),
    Workload(
        "batch-ascending",
        "batch of 10,000 puts, ascending keys",
        "synced",
        (Role(put_batch, ascending_batches, 1),),
        "put",
    ),
    Workload("rmw", "read-modify-write, fsynced", "synced", (_modifiers(_SYNCED, 1),)),
    Workload("rmw-4", "read-modify-write, fsynced, 4 threads", "synced", (_modifiers(_SYNCED, 4),)),
    Workload("rmw-unsynced", "read-modify-write, unsynced", "unsynced", (_modifiers(_UNSYNCED, 1),)),
    Workload("rmw-unsynced-4", "read-modify-write, unsynced, 4 threads", "unsynced", (_modifiers(_UNSYNCED, 4),)),
    Workload(
        "readers-writer",
        "4 readers, fast path, beside 1 fsyncing writer: reads (writes)",
        "synced",
        (Role(read_each_directly, _BESIDE_A_WRITER, 4), _modifiers(_SYNCED, 1)),
    ),
)
