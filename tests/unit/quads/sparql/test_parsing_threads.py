"""Parsing in many threads, which share rdflib's one grammar."""

from __future__ import annotations

import threading

from lowtide.quads.sparql.parsing import parsed_query, parsed_update


def test_texts_that_are_parsed_at_the_same_time_are_not_mixed_up() -> None:
    errors: list[Exception] = []
    barrier = threading.Barrier(4)

    def parse(name: int) -> None:
        barrier.wait()
        for n in range(6):
            try:
                group = f"{{ graph ?g {{ ?s <urn:{name}:{n}> ?o, [ <urn:q> ?x ] filter(?x > {n}) }} }}"
                parsed_query(f"select (sum(?x) as ?total{name}) {group} group by ?o", {}, None)
                parsed_update(f"delete {{ ?s <urn:{name}> ?o }} where {group}", {}, None)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=parse, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
