"""`python -m spark_incr` is `spark-incr`."""

import sys

from spark_incr.cli import main

if __name__ == "__main__":
    sys.exit(main())
