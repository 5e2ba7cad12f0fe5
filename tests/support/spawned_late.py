"""A module whose import takes a while, and is killed then."""

import os
import signal
import time

time.sleep(1.3)
os.kill(os.getpid(), signal.SIGKILL)
