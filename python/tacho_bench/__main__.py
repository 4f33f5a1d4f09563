"""`python -m tacho_bench …` is `tacho …`."""

import os
import sys

from . import executable

os.execv(executable(), ["tacho", *sys.argv[1:]])
