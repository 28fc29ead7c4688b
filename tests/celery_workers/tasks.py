"""The tasks, in an application whose settings the test hands over as JSON in the environment.

`python tasks.py TASK OPTIONS NAME…` sends tasks.
"""

import json
import os
import sys
import time
from pathlib import Path

from celery import Celery

app = Celery("tasks")
app.conf.update(json.loads(os.environ["CELERY_SETTINGS"]))


def note(name):
    with Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(f"{name} {time.time()}\n")


@app.task
def finish(name):
    note(name)


@app.task(acks_late=True)
def hold_the_first_time(name):
    """Never ends where it is run first."""
    held = Path(os.environ["NOTES"]).with_name(f"{name}.held")
    if held.exists():
        note(name)
        return
    held.touch()
    time.sleep(600)


if __name__ == "__main__":
    for argument in sys.argv[3:]:
        app.send_task(f"tasks.{sys.argv[1]}", args=[argument], **json.loads(sys.argv[2]))
