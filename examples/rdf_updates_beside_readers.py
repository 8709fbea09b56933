"""SPARQL updates while others read: a result is one snapshot for its whole life, an update is one transaction."""

from __future__ import annotations

import tempfile
import threading

from rdflib import Literal, Namespace

import lowtide.rdf

EX = Namespace("http://example.org/")
ACCOUNTS, TRANSFERS = 50, 40

TOTAL = "select (sum(?amount) as ?total) { graph <http://example.org/bank> { ?account ex:holds ?amount } }"
MOVE = """
    with <http://example.org/bank>
    delete { ?from ex:holds ?a . ?to ex:holds ?b }
    insert { ?from ex:holds ?less . ?to ex:holds ?more }
    where {
        ?from ex:holds ?a . ?to ex:holds ?b .
        bind(?a - ?sum as ?less) bind(?b + ?sum as ?more)
    }
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        data = lowtide.rdf.Dataset("lowtide")
        data.open(directory, create=True)
        data.bind("ex", EX)
        bank = data.graph(EX.bank)
        bank.addN((EX[f"account{n}"], EX.holds, Literal(100), bank) for n in range(ACCOUNTS))

        done = threading.Event()
        totals: list[int] = []

        def audit() -> None:
            while not done.is_set() or not totals:
                ((total,),) = data.query(TOTAL)  # type: ignore[misc]
                totals.append(int(total))

        auditor = threading.Thread(target=audit)
        auditor.start()
        # This result is fixed before its first row is read.
        before = data.query("select ?amount { graph ex:bank { ?account ex:holds ?amount } }")
        for n in range(TRANSFERS):
            accounts = {"from": EX[f"account{n % 7}"], "to": EX[f"account{7 + n % 11}"], "sum": Literal(n % 9 + 1)}
            data.update(MOVE, initBindings=accounts)  # removes and inserts at once
        done.set()
        auditor.join()

        print(f"{TRANSFERS} transfers, {len(totals)} audits beside them; totals seen: {set(totals)}")
        assert set(totals) == {ACCOUNTS * 100}
        amounts = {int(amount) for (amount,) in before}  # type: ignore[misc]
        print("a result from before the transfers, read after them:", amounts)
        assert amounts == {100}

        # A request with several operations is one transaction; each operation sees the ones before it.
        data.update("create graph ex:log ; insert data { graph ex:log { ex:run ex:transfers 40 } }")
        print("graphs:", sorted(str(each.identifier).rpartition("/")[2] for each in data.graphs() if len(each)))
        print(data.explain("select ?amount { graph ex:bank { ex:account1 ex:holds ?amount } }"))
        data.close()


if __name__ == "__main__":
    main()
