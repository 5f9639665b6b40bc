"""`python -m septran` is the `septran` command."""

import sys

from septran.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
