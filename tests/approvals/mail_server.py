"""A mail server on loopback that takes only what RFC 5321 and 5322 allow, or hangs, or refuses."""

from __future__ import annotations

import re
import threading
from email import message_from_bytes, policy
from socketserver import StreamRequestHandler, ThreadingTCPServer

LONGEST_LINE = 998


class MailServer(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Door)
        self.letters, self.faults, self.connections = [], [], 0
        self.hangs, self.refused = threading.Event(), set()
        self.released = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]


class Door(StreamRequestHandler):
    def handle(self):
        self.server.connections += 1
        if self.server.hangs.is_set():
            self.server.released.wait(30)
            return
        self.sender, self.recipients = "", []
        self.say("220 mail.example ESMTP")
        while line := self.rfile.readline(LONGEST_LINE + 2):
            if not line.endswith(b"\r\n") or not line.isascii():
                self.server.faults.append(f"a command line {line!r}")
                self.say("500 no")
                return
            if not self.obey(line[:-2].decode()):
                return

    def obey(self, line):
        verb = line.split(" ")[0].upper()
        if verb == "EHLO":
            self.say("250-mail.example\r\n250 8BITMIME")
        elif verb == "MAIL" and (found := re.match(r"MAIL FROM:<([^<> ]+@[^<> ]+)>", line, re.I)):
            self.sender = found[1]
            self.say("250 ok")
        elif verb == "RCPT" and (found := re.match(r"RCPT TO:<([^<> ]+@[^<> ]+)>$", line, re.I)):
            if not self.sender or found[1] in self.server.refused:
                self.say("550 no such mailbox")
            else:
                self.recipients.append(found[1])
                self.say("250 ok")
        elif verb == "DATA" and self.recipients:
            self.say("354 go on")
            self.take()
        elif verb in {"RSET", "NOOP"}:
            self.say("250 ok")
        elif verb == "QUIT":
            self.say("221 bye")
            return False
        else:
            self.server.faults.append(f"out of order: {line}")
            self.say("503 no")
        return True

    def take(self):
        lines = []
        while (line := self.rfile.readline(LONGEST_LINE + 3)) != b".\r\n":
            if not line.endswith(b"\r\n") or len(line) > LONGEST_LINE + 2:
                self.server.faults.append(f"a line of the message {line!r}")
            lines.append(line[1:] if line.startswith(b".") else line)
        letter = message_from_bytes(b"".join(lines), policy=policy.SMTP)
        for name in ("From", "To", "Date", "Message-ID", "Subject"):
            if len(letter.get_all(name, [])) != 1:
                self.server.faults.append(f"{name} is there {len(letter.get_all(name, []))} times")
        if letter.defects:
            self.server.faults.append(str(letter.defects))
        self.server.letters.append(letter)
        self.say("250 taken")

    def say(self, text):
        self.wfile.write(f"{text}\r\n".encode())
