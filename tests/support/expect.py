"""Assertions on refused calls, the same for both protocols and for SDKs."""

import hashlib
import struct

import pytest

from support.wire import ApiError

# Legacy codes of modelled errors that differ from their JSON shape; all others with the
# `AWS.SimpleQueueService.` prefix are shape names behind it.
SHAPES = {
    "InvalidParameterValue": "InvalidParameterValueException",
    "MissingParameter": "MissingRequiredParameterException",
    "AWS.SimpleQueueService.NonExistentQueue": "QueueDoesNotExist",
    "QueueAlreadyExists": "QueueNameExists",
}
PREFIX = "AWS.SimpleQueueService."
NO_QUEUE = PREFIX + "NonExistentQueue"


def shape_of(code: str) -> str:
    """The JSON shape name that goes with a legacy code."""
    return SHAPES.get(code, code.removeprefix(PREFIX))


def refused(api, action, code, message=None, status=400, **parameters) -> ApiError:
    """Calls, expects a refusal with this code, and this message if one is given."""
    with pytest.raises(ApiError) as caught:
        api.call(action, **parameters)
    error = caught.value
    assert (error.code, error.status) == (code, status), error
    if api.protocol == "json":
        assert error.shape.rpartition("#")[2] == shape_of(code), error
    if message is not None:
        assert error.message == message
    return error


def md5(data: str | bytes) -> str:
    return hashlib.md5(data.encode() if isinstance(data, str) else data).hexdigest()


def md5_of_attributes(attributes: dict) -> str:
    """The digest of message attributes, as the SDKs compute it. BinaryValue is bytes."""

    def sized(data: str | bytes) -> bytes:
        data = data.encode() if isinstance(data, str) else data
        return struct.pack(">I", len(data)) + data

    digest = hashlib.md5()
    for name in sorted(attributes, key=str.encode):
        value = attributes[name]
        is_binary = value["DataType"].startswith("Binary")
        digest.update(sized(name) + sized(value["DataType"]))
        digest.update(b"\x02" if is_binary else b"\x01")
        digest.update(sized(value["BinaryValue" if is_binary else "StringValue"]))
    return digest.hexdigest()
