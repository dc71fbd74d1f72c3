"""`python -m revalued` is the same as `revalued`."""

import sys

from revalued.cli import main

sys.exit(main())
