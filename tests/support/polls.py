"""Long polls on raw connections, which a test leaves open, reads or cuts."""

import http.client
import json
import socket
import time
import urllib.parse

from support.wire import JSON_TYPE


class OpenPoll:
    """A long poll on a raw connection, to be left open, closed or read."""

    def __init__(self, endpoint, url, wait_s=20):
        address = urllib.parse.urlsplit(endpoint)
        body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": wait_s})
        self.socket = socket.create_connection((address.hostname, address.port), timeout=30)
        self.socket.sendall(
            f"POST / HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: {JSON_TYPE}\r\n"
            f"X-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )

        self.server_port, self.port = address.port, self.socket.getsockname()[1]

    def wait_until_read(self):
        """Returns when the server has taken the request out of its socket's buffer."""
        ends = f":{self.server_port:04X} 0100007F:{self.port:04X} "
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with open("/proc/net/tcp") as table:
                lines = [line.split() for line in table if ends in line]
            if lines and lines[0][4].endswith(":00000000"):
                return
        raise AssertionError("the server does not read the request")

    def bodies(self):
        """Those of the messages in the answer, which it waits for."""
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return [message["Body"] for message in json.load(response).get("Messages", [])]

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with a reset instead of a FIN, as a process that is killed may."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()


def let_park():
    """Nothing on the wire tells that a poll has parked, so this is the one wait by time."""
    time.sleep(0.1)
