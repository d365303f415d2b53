"""The campaign: ``python -m tests.faults --rounds 50 --seed 1 --seconds 1800``."""

import sys

from tests.faults.campaign import main

if __name__ == "__main__":
    sys.exit(main())
