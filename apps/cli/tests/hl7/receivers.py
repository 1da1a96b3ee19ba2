"""Receivers by MLLP and by HTTP with the package `hl7`. Prints their ports, then the control id of each message."""

import asyncio
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import hl7
from hl7.mllp import start_hl7_server

CODES = {"accept": "AA", "reject": "AR", "error": "AE", "foreign": "AA"}
PRINTING = threading.Lock()  # print writes a line and its end apart


def acknowledgement(message):
    """The reply to a message: as it says, for another message, or none."""
    control_id, says = message["MSH.F10"], str(message.segment("NTE")[3])
    with PRINTING:
        print(control_id, flush=True)
    if says == "silent":
        return b"thank you, CANARY"
    ack = str(message.create_ack(CODES[says]))
    return (ack.replace(control_id, "another") if says == "foreign" else ack).encode()


async def by_mllp(reader, writer):
    try:
        while not writer.is_closing():
            writer.writeblock(acknowledgement(await reader.readmessage()))
            await writer.drain()
    except asyncio.IncompleteReadError:
        writer.close()


class ByHttp(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        assert self.headers["Content-Type"] == "x-application/hl7-v2+er7"
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        reply = acknowledgement(hl7.parse(body))
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


async def main():
    mllp = await start_hl7_server(by_mllp, "127.0.0.1", 0)
    http = ThreadingHTTPServer(("127.0.0.1", 0), ByHttp)
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, daemon=True).start()
    print(mllp.sockets[0].getsockname()[1], flush=True)
    print(http.server_address[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
