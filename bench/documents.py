"""The documents that every store holds, and the codec between them and bytes.

Encoding and decoding belong to the application, not to a store. They are done here in the same way for every store, so
that no store gets bytes that another has to make.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

Document = dict[str, Any]
Pair = tuple[bytes, bytes]

encode: Callable[[Document], bytes] = msgspec.msgpack.Encoder().encode

# Stores answer None for a missing key. Here every key exists, so None must end the run: the decoder raises on it,
# which spares the timed loops a test.
decode = cast(Callable[[bytes | None], Document], msgspec.msgpack.Decoder().decode)

_NAMES = ("Ada", "Barbara", "Edsger", "Grace", "Jim", "Leslie", "Michael", "Pat", "Phil", "Tony")
_CITIES = ("Aberdeen", "Bergen", "Cuxhaven", "Den Helder", "Esbjerg", "Fremantle", "Galway", "Husum", "Izmir")
_TAGS = ("archived", "export", "northern", "priority", "retail", "seasonal", "trial", "wholesale")


def make_document(number: int) -> Document:
    """The document with this number: about 150 bytes encoded, the same in every run."""
    choose = random.Random(number)
    name = choose.choice(_NAMES)
    return {
        "name": f"{name} {number:07d}",
        "email": f"{name.lower()}.{number:07d}@example.org",
        "city": choose.choice(_CITIES),
        "balance": choose.randrange(1_000_000),
        "score": choose.random(),
        "active": choose.random() < 0.5,
        "tags": choose.sample(_TAGS, 3),
        "revision": 0,
    }


def make_key(number: int) -> bytes:
    return b"document-%08d" % number


def change(value: bytes | None) -> bytes:
    """The modification of every read-modify-write. It never stores equal bytes: sqlite3 would skip write and sync."""
    document = decode(value)
    document["revision"] += 1
    return encode(document)


def decode_all(pairs: Iterable[Pair]) -> int:
    """Decode the values one by one, as an application that streams over them; return how many there were."""
    count = 0
    for _, value in pairs:
        decode(value)
        count += 1
    return count


def gather_all(pairs: Iterable[Pair]) -> int:
    """Decode the values into one list, which costs the cyclic collector more than it costs any store."""
    return len([decode(value) for _, value in pairs])


def total_revisions(pairs: Iterable[Pair]) -> int:
    """How many modifications the documents carry. A store that loses an update is found out by this sum."""
    return sum(decode(value)["revision"] for _, value in pairs)


class Dataset:
    """The keys in ascending order with their documents, and as many drafts as the largest batch puts."""

    def __init__(self, count: int, batch: int) -> None:
        self.count = count
        self.batch = min(batch, count)
        self.keys = [make_key(number) for number in range(count)]
        self.pairs = [(key, encode(make_document(number))) for number, key in enumerate(self.keys)]
        """Every key with its document, for the first load."""
        self._drafts = [make_document(number) for number in range(self.batch)]

    def changed_pairs(self, numbers: Sequence[int]) -> Iterator[Pair]:
        """These keys, each with a document that no earlier batch has put there."""
        keys = self.keys
        for number, document in zip(numbers, self._drafts, strict=False):
            document["revision"] += 1
            yield keys[number], encode(document)

    def random_numbers(self, seed: int, length: int, stop: int | None = None) -> list[int]:
        """Numbers of random documents below ``stop``; one seed gives every store the same ones."""
        return random.Random(seed).choices(range(self.count if stop is None else stop), k=length)
