"""A file of batches is read as it was written, or refused."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.sharing.loading.batch_file import BatchEntry, BatchFileReader, BatchFileWriter, DamagedFile

Rows = list[tuple[list[bytes], list[bytes] | None]]


def written(batches: Rows) -> bytes:
    file = io.BytesIO()
    writer = BatchFileWriter(file)
    for keys, documents in batches:
        writer.write(keys, documents)
    writer.finish()
    return file.getvalue()


def read(data: bytes) -> tuple[list[BatchEntry], Rows]:
    reader = BatchFileReader(io.BytesIO(data))
    return reader.directory, [reader.read(each) for each in reader.directory]


@given(st.lists(st.tuples(st.lists(st.binary(), min_size=1), st.booleans())))
def test_batches_are_read_as_they_were_written_from_any_on(given: list[tuple[list[bytes], bool]]) -> None:
    batches: Rows = [(keys, [b"of " + key for key in keys] if kept else None) for keys, kept in given]
    reader = BatchFileReader(io.BytesIO(written(batches)))
    for entry, (keys, documents) in reversed(list(zip(reader.directory, batches, strict=True))):
        assert reader.read(entry) == (keys, documents if documents is not None else [None] * len(keys))
        assert (entry.rows, entry.first, entry.last) == (len(keys), keys[0], keys[-1])


def test_a_file_that_was_cut_short_or_changed_is_refused() -> None:
    whole = written([([b"a", b"b"], [b"1", b"2"]), ([b"c"], [b"3"])])
    assert len(read(whole)[1]) == 2
    for length in range(len(whole)):
        with pytest.raises(DamagedFile):
            read(whole[:length])
    for place in range(len(whole)):
        changed = whole[:place] + bytes((whole[place] ^ 0xFF,)) + whole[place + 1 :]
        with contextlib.suppress(DamagedFile):
            assert read(changed) != read(whole), "a changed value"
