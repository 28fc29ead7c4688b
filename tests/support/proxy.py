"""A way to a server over TCP that a test can hold up."""

import socket
import threading


class Proxy:
    """Passes bytes on, both ways. Subclasses look at what passes in `asked` and `answered`."""

    def __init__(self, port: int):
        self.server = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def asked(self, data: bytes):
        """A piece that a client sent and that is passed on when this returns."""

    def answered(self, data: bytes) -> bytes:
        """What is passed on of a piece that the server sent. Less than all ends the connection."""
        return data

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.server)
            for ends in ((client, server), (server, client)):
                ends[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass_on, args=(*ends, ends[0] is server), daemon=True).start()

    def _pass_on(self, one, other, is_answer):
        try:
            while data := one.recv(1 << 16):
                if not is_answer:
                    self.asked(data)
                passed = self.answered(data) if is_answer else data
                other.sendall(passed)
                if len(passed) < len(data):
                    other.shutdown(socket.SHUT_RDWR)
                    one.shutdown(socket.SHUT_RDWR)
                    return
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass
