"""What packages are made of, away from the machine that they were built on."""

import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path


def copy_libraries(program: Path, root: Path) -> set[str]:
    """Puts the libraries that `program` names below `root`, and returns their names: none for a static program."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    libraries = re.findall(r"(/\S+) \(0x", listed)
    for library in libraries:
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    return {os.path.basename(library).split(".")[0] for library in libraries}


def wait_until_served(output) -> None:
    """Reads a server's log until it says that it serves."""
    log = []
    for line in output:
        log.append(line)
        if " serving " in line:
            return
    raise AssertionError(f"the server does not serve:\n{''.join(log)}")


def create_queue(port) -> None:
    call = f"http://127.0.0.1:{port}/?Action=CreateQueue&QueueName=q"
    assert urllib.request.urlopen(call, timeout=30).status == 200


def first_block(page: Path, language: str) -> str:
    """The first block of code of a language in a page."""
    return re.search(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)[1]
