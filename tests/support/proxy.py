"""A way to a server over TCP that a test can hold up."""

import socket
import threading


class Proxy:
    """Passes bytes on, both ways. Subclasses look at what clients send, and may wait, in `asked`."""

    def __init__(self, port: int):
        self.server = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def asked(self, data: bytes):
        """A piece that a client sent and that is passed on when this returns."""

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.server)
            for one, other, look in ((client, server, self.asked), (server, client, lambda _: None)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=pass_on, args=(one, other, look), daemon=True).start()


def pass_on(one, other, look):
    try:
        while data := one.recv(1 << 16):
            look(data)
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass
