"""The developer guide's data and queries, and more: `corpus.json`."""

import json
from pathlib import Path

import pytest

from support.wire import ApiError
