"""A server that takes SimpleDB's writes and checks their signatures, for `millrace bench sdb-csv`."""

import base64
import hashlib
import hmac
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote

SECRET = "secret"


class FakeSimpleDb:
    def __init__(self):
        self.domains = {}
        self.actions = []
        self.refused = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status = fake.take(dict(parse_qsl(body)), self.headers["Host"])
                self.send_response(status)
                answer = b"<Response/>"
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def take(self, parameters: dict, host: str) -> int:
        if parameters.pop("Signature", "") != signature(parameters, host):
            self.refused.append(parameters)
            return 403
        action, domain = parameters["Action"], parameters["DomainName"]
        self.actions.append(action)
        match action:
            case "CreateDomain":
                self.domains[domain] = {}
            case "DeleteDomain":
                pass
            case "PutAttributes":
                self.domains[domain][parameters["ItemName"]] = values(parameters, "")
            case "BatchPutAttributes":
                numbers = [key.split(".")[1] for key in parameters if key.endswith(".ItemName")]
                assert len(numbers) <= 25
                for number in numbers:
                    name = parameters[f"Item.{number}.ItemName"]
                    self.domains[domain][name] = values(parameters, f"Item.{number}.")
            case _:
                return 400
        return 200


def values(parameters: dict, front: str) -> dict:
    found = {}
    for key, name in parameters.items():
        if key.startswith(f"{front}Attribute.") and key.endswith(".Name"):
            found[name] = parameters[key.removesuffix("Name") + "Value"]
    return found


def signature(parameters: dict, host: str) -> str:
    """Signature Version 2, written down independently of the client."""
    pairs = [f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}" for key, value in parameters.items()]
    text = f"POST\n{host.lower()}\n/\n" + "&".join(sorted(pairs))
    digest = hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
