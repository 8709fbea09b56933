"""``python -m bench.collections``: the comparison of documents by itself."""

from bench import alone
from bench.collections.compare import SECTION

if __name__ == "__main__":
    alone.run(SECTION)
