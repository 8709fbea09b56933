"""Two threads change one graph: isolation levels, a conflict, and `run`, which retries on conflict."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable

from rdflib import Literal, Namespace, URIRef

import lowtide
import lowtide.rdf

EX = Namespace("http://example.org/")


def meanwhile(work: Callable[[], object]) -> None:
    """Do something in another thread, which has its own transaction, and wait for it."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def on_call(graph: lowtide.rdf.Graph) -> list[str]:
    return sorted(str(doctor).rpartition("/")[2] for doctor in graph.subjects(EX.on, EX.call))


def leave(graph: lowtide.rdf.Graph, doctor: URIRef) -> None:
    """A doctor may leave if another one stays."""
    if len(on_call(graph)) > 1:
        graph.remove((doctor, EX.on, EX.call))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        graph = lowtide.rdf.Graph("lowtide", EX.hospital)
        graph.open(directory, create=True)

        # A transaction reads one snapshot; commits of others are visible after it ends.
        graph.add((EX.ann, EX.age, Literal(41)))
        with graph.transaction():
            meanwhile(lambda: graph.set((EX.ann, EX.age, Literal(42))))
            print("inside:", graph.value(EX.ann, EX.age), end=", ")
        print("after:", graph.value(EX.ann, EX.age))

        # If two transactions change the same statement, the second one to commit is refused.
        try:
            with graph.transaction():
                graph.set((EX.ann, EX.age, Literal(43)))
                meanwhile(lambda: graph.set((EX.ann, EX.age, Literal(44))))
        except lowtide.ConflictError:
            print("conflict: ann stays", graph.value(EX.ann, EX.age))

        # Two transactions read the same statements and change different ones: SNAPSHOT lets both doctors leave,
        # SERIALIZABLE does not.
        for level in ("snapshot", "serializable"):
            graph.addN((doctor, EX.on, EX.call, graph) for doctor in (EX.ann, EX.bob))
            try:
                with graph.transaction(isolation=level):
                    leave(graph, EX.ann)
                    meanwhile(lambda level=level: graph.run(lambda tx: leave(graph, EX.bob), level))  # type: ignore[misc]
            except lowtide.ConflictError:
                print("conflict at", level, end="; ")
            print(f"{level}: on call {on_call(graph)}")
        assert on_call(graph) == ["ann"]

        # `run` retries after a conflict, so no increment is lost. The transaction covers documents too.
        graph.set((EX.visits, EX.times, Literal(0)))

        def visit(tx: lowtide.Transaction) -> None:
            count = graph.value(EX.visits, EX.times)
            assert isinstance(count, Literal)
            graph.set((EX.visits, EX.times, Literal(int(count) + 1)))
            tx["journal"].insert_one({"visit": int(count) + 1})

        threads = [threading.Thread(target=lambda: [graph.run(visit) for _ in range(10)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with graph.transaction(read_only=True) as tx:
            entries = tx["journal"].count_documents({})
        print("visits:", graph.value(EX.visits, EX.times), "entries:", entries)
        assert entries == 40
        graph.close()


if __name__ == "__main__":
    main()
