"""Puts the programs beside this file into the wheel, which pip lays beside `python`."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface):
    def initialize(self, version, build_data):
        directory = Path(self.root) / "programs"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['WHEEL_PLATFORM']}"
        build_data["shared_scripts"] = {str(path): path.name for path in directory.iterdir()}
