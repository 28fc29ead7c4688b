"""Commands that run while a test does something else."""

import contextlib
import os
import signal
import subprocess


@contextlib.contextmanager
def running(command, **options):
    """A process that is over when the block is, however that ends, with all that it started."""
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            # The group outlives its first process while another is left in it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
