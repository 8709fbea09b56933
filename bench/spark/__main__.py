"""``python -m bench.spark``: this section by itself."""

from bench import alone
from bench.spark.section import SECTION

if __name__ == "__main__":
    alone.run(SECTION)
