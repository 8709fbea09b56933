"""``python -m bench.rdf``: the comparison of graphs by itself."""

from bench import alone
from bench.rdf.section import SECTION

if __name__ == "__main__":
    alone.run(SECTION)
