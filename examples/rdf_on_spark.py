"""RDF on Spark: statements are rows, a write is one transaction, and SPARQL queries any archived instant."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import functions as F
from rdflib import Literal, URIRef

import lowtide
import lowtide.pipeline
import lowtide.rdf
import lowtide.spark

KNOWS, NAME, RANK = (URIRef(f"http://example.org/{each}") for each in ("knows", "name", "rank"))


def person(number: int) -> URIRef:
    return URIRef(f"http://example.org/person/{number}")


def main() -> None:
    here = Path(tempfile.mkdtemp())
    spark = lowtide.spark.session("local[2]")
    with lowtide.open(here / "social") as store:
        people = store.quads("people")
        people.add_many((person(n), NAME, Literal(f"Person {n}")) for n in range(100))
        people.add_many((person(n), KNOWS, person(n % 7)) for n in range(7, 100))
        lowtide.pipeline.archive(spark, store.path, here / "archive")
        before = store.stats().last_commit

        options = {"path": str(store.path), "quads": "people"}
        known = spark.read.format("lowtide").options(p=f"<{KNOWS}>", **options).load()
        people.remove((None, KNOWS, None))  # the DataFrame stays at its instant
        ranks = (
            known.groupBy("o")
            .count()
            .select(
                F.col("o").alias("s"),
                F.lit(str(RANK)).alias("p"),
                F.col("count").cast("string").alias("o"),
                F.lit("literal").alias("o_kind"),
                F.lit("http://www.w3.org/2001/XMLSchema#integer").alias("o_datatype"),
            )
        )
        ranks.write.format("lowtide").options(**options).mode("append").save()
        for _, _, rank, _ in sorted(people.match(None, RANK, None), key=lambda each: str(each[0])):
            print("rank", rank)

        lowtide.pipeline.archive(spark, store.path, here / "archive")
        removed = lowtide.pipeline.diff(spark, here / "archive", before, None, quads="people").where("_kind = 'delete'")
        print("statements removed since:", removed.count())
    lowtide.pipeline.restore(spark, here / "archive", here / "then", at=before)
    graph = lowtide.rdf.Graph("lowtide")
    graph.open((str(here / "then"), "people"))
    found = graph.query(f"SELECT ?who {{ ?who <{KNOWS}> ?other }}")
    print("acquaintances then:", len(found))
    graph.close()


if __name__ == "__main__":
    main()
