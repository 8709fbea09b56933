"""Directories whose files were damaged, cut, exchanged or lost: the store opens with a state that it had, or refuses.

LMDB has no checksums, and a damaged page can kill the process. So data.mdb is only replaced as a whole, by nothing, by
noise, or by the file of another store.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lowtide.engine.recovery.ownership import describe_holder
from lowtide.errors import Error
from tests.crash.stores import Content
from tests.fuzz.guard import bounded
from tests.fuzz.mutation import Edit, edits, mutated, repaired
from tests.fuzz.profile import pure, whole_store
from tests.fuzz.stores import MEMORY, ask_everything, copy_of, make

Template = tuple[Path, list[Content]]
_edits = st.lists(edits, min_size=1, max_size=4)


def segments_of(path: Path) -> list[Path]:
    return sorted((path / "log").glob("*.log"))


def apply(path: Path, chosen: list[Edit], then: Callable[[bytes], bytes] = bytes) -> None:
    data = path.read_bytes()
    for edit in chosen:
        data = edit(data)
    path.write_bytes(then(data))


@whole_store
@given(which=st.integers(0, 9), chosen=_edits)
def test_a_damaged_log_opens_with_a_state_that_was_committed_or_is_refused(
    template: Template, which: int, chosen: list[Edit]
) -> None:
    with copy_of(template[0]) as path:
        found = segments_of(path)
        apply(found[which % len(found)], chosen)
        content, error = bounded(0, lambda: ask_everything(path), more=MEMORY)
        assert error is not None or content in template[1][4:], "the checkpoint was at commit 4"


@whole_store
@given(which=st.integers(0, 9), chosen=_edits)
def test_a_log_of_any_content_with_right_checksums_opens_or_is_refused(
    template: Template, which: int, chosen: list[Edit]
) -> None:
    with copy_of(template[0]) as path:
        found = segments_of(path)
        apply(found[which % len(found)], chosen, repaired)
        bounded(0, lambda: ask_everything(path), more=MEMORY)


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=8) | st.just("ab" * 16),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_documents = st.one_of(
    st.fixed_dictionaries({"format": _values, "store": _values}),
    st.fixed_dictionaries({}, optional={"pid": _values, "host": _values, "passing": _values, "program": _values}),
    _values,
).map(lambda value: json.dumps(value).encode())
_texts = st.one_of(
    _documents,
    mutated(b'{"format": 2, "store": "' + b"ab" * 16 + b'"}'),
    st.sampled_from([b"", b"[" * 100_000, b'{"format": 1' + b"0" * 5000 + b"}", b'{"pid": 1' + b"0" * 30 + b"}"]),
)


@whole_store
@given(name=st.sampled_from(["store.json", "lock", "published", "backup.json", "base/lock.mdb.use"]), text=_texts)
def test_small_files_of_any_content_are_understood_replaced_or_refused(
    template: Template, name: str, text: bytes
) -> None:
    with copy_of(template[0]) as path:
        (path / name).write_bytes(text)
        content, error = bounded(len(text), lambda: ask_everything(path), more=MEMORY)
        assert error is not None or content == template[1][-1]


@pure
@given(_texts)
def test_a_lock_of_any_text_names_somebody(text: bytes) -> None:
    assert bounded(len(text), lambda: describe_holder(text))


@whole_store
@given(
    moves=st.lists(
        st.tuples(st.integers(0, 99), st.integers(0, 99), st.sampled_from(["swap", "drop", "copy", "blank", "dir"])),
        min_size=1,
        max_size=3,
    )
)
def test_files_that_were_lost_or_exchanged_open_or_are_refused(
    template: Template, moves: list[tuple[int, int, str]]
) -> None:
    with copy_of(template[0]) as path:
        make(path.with_name("other"))
        for one, two, move in moves:
            mine = sorted(each for each in path.rglob("*") if each.is_file() and each.name != "lock.mdb")
            there = sorted(each for each in path.parent.rglob("*") if each.is_file() and each.name != "lock.mdb")
            first, second = mine[one % len(mine)], there[two % len(there)]
            if move == "drop":
                first.unlink()
            elif move == "blank":
                first.write_bytes(b"")
            elif move == "dir":
                first.unlink()
                first.mkdir()
            elif move == "copy" or second.parent.parent != path.parent:
                first.write_bytes(second.read_bytes())
            else:
                kept = first.read_bytes()
                first.write_bytes(second.read_bytes())
                second.write_bytes(kept)
        bounded(0, lambda: ask_everything(path), more=MEMORY)


@whole_store
@given(noise=st.binary(max_size=5000))
def test_a_base_of_noise_is_refused(template: Template, noise: bytes) -> None:
    with copy_of(template[0]) as path:
        (path / "base" / "data.mdb").write_bytes(noise)
        _, error = bounded(len(noise), lambda: ask_everything(path), more=MEMORY)
        assert isinstance(error, Error)
