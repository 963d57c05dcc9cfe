"""A web site for the tests of the browser. It runs in the sandbox: `python browser_site.py PORT [CERTIFICATE]`."""

# ruff: noqa: E501 - pages, a line each

from __future__ import annotations

import json
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

SHOP = """<title>Shop</title><h1>Our shop</h1>
<form onsubmit="event.preventDefault(); found.textContent = '2 ' + q.value + 's'">
<label for=q>Search</label> <input id=q></form><p id=found></p>
<button onclick="prices()">Show prices</button> <a href=/prices.csv>Price list</a><div id=here></div>
<script>async function prices() {
  const rows = await (await fetch('/prices.json')).json();
  here.innerHTML = '<table>' + rows.map(r => '<tr><td>' + r[0] + '<td>' + r[1]).join('') + '</table>';
}</script>"""
FORM = """<title>Form</title><form method=post action=/echo>
<label>Name <input name=name></label> <input name=mail placeholder=E-mail> <input type=password name=secret>
<label>Remarks <textarea name=remarks>old</textarea></label> <input type=date name=day aria-label=Day>
<label>Country <select name=country><option value=>choose<option value=no>Norway<option value=dk>Denmark</select></label>
<label><input type=checkbox name=terms> I agree</label> <label><input type=radio name=size value=l> Large</label>
<label>Attachment <input type=file name=file onchange="picked.value = this.files[0].name"></label>
<input type=hidden name=picked id=picked><div contenteditable=true aria-label=Note></div>
<button>Send</button></form><button disabled>Not yet</button>
<div style="position:relative"><button>Covered</button><div id=cover style="position:absolute;inset:0"></div></div>
<button style="display:none">Secret</button>"""
DIALOGS = """<title>Dialogs</title><p id=said>nothing</p>
<button onclick="alert('Hello'); said.textContent = 'told'">Tell</button>
<button onclick="said.textContent = confirm('Really?')">Delete</button>
<button onclick="said.textContent = prompt('Name?')">Ask</button>
<button onclick="setTimeout(() => { said.textContent = confirm('Later?') }, 1000)">Later</button>
<button onclick="onbeforeunload = e => e.preventDefault()">Stay</button>"""
TABS = """<title>Tabs</title><a href=/child target=_blank>Child</a>
<button onclick="window.open('/child')">Open</button> <button onclick="window.open('/closes')">Other</button>
<button onclick="for (let i = 0; i < 15; i++) window.open('/child?' + i)">Flood</button>"""
CHILD = "<title>Child</title><p>I am new</p><button onclick='window.close()'>Done</button><a href=/tabs>Further</a>"
CLOSES = """<title>Closes</title><button onclick=window.close()>clicked</button> <button onmousedown=window.close()>pressed</button>
<button onmouseover=window.close()>approached</button> <input aria-label=typed oninput=window.close()>"""
TWINS = """<title>Twins</title><ul><li>Ada <button>Remove</button><li>Bob <button id=bob onclick="
document.title = 'Bob removed'">Remove</button></ul>
<a href=/child><img alt=Child width=9 height=9></a><a href=/child>Child</a> <a href=/child>Child</a>"""
PAGES = {
    "/": "<title>Home</title><h1>Welcome</h1><a href=/child>Child</a>",
    "/shop.html": SHOP,
    "/form": FORM,
    "/dialogs": DIALOGS,
    "/tabs": TABS,
    "/child": CHILD,
    "/twins": TWINS,
    "/closes": CLOSES,
    "/frame": "<title>Outer</title><p>outside</p><iframe src=/dialogs></iframe>",
    "/freeze": "<title>Freeze</title><button onclick='while (true) {}'>Freeze</button>",
    "/tall": "<title>Tall</title><body style='margin:0'><div style='height:40000px;background:teal'></div>",
    "/online": "<title>Online</title><script>document.write(navigator.onLine)</script>",
    "/heavy": "<title>Heavy</title><script>window.kept = Array.from({length: 2e6}, (_, i) => ({i}))</script>"
    * 2,
    "/greedy": "<title>Greedy</title><button onclick='const a = []; while (true) a.push(new Array(1e6).fill(a.length))'>Eat</button>",
    # What no limit of JavaScript's counts, up to just below the limit of the sandbox, and all of it in use.
    "/hoard": """<title>Hoard</title><button onclick="const a = [], size = 1 << 20;
for (let i = 0; i < 1800; i++) a.push(new Uint8Array(size).fill(i));
while (true) for (const part of a) for (let j = 0; j < size; j += 4096) part[j]++">Eat</button>""",
    "/links": """<title>Links</title><a href=/prices.csv>One</a> <a href=/odd>Odd</a> <a href=/late>Late</a>
<a href=/broken>Broken</a> <a href=/prices.csv target=_blank>Elsewhere</a> <a href=/slow?5>Slow</a>""",
}
FILES = {
    "/prices.csv": ("prices.csv", b"lamp,12\n"),
    "/odd": ("../../.. a\tb\u202e/c.txt", b"odd\n"),
    "/book.pdf": ("", b"%PDF-1.4\n%%EOF\n"),
}


class Site(BaseHTTPRequestHandler):
    """Its pages."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path in PAGES:
            self.answer(PAGES[url.path])
        elif url.path in FILES:
            name, content = FILES[url.path]
            self.send_response(200)
            self.send_header("Content-Type", "application/pdf" if not name else "text/csv")
            if name:
                self.send_header("Content-Disposition", "attachment; filename*=UTF-8''" + quoted(name))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        elif url.path == "/prices.json":
            time.sleep(0.5)
            self.answer(json.dumps([["lamp", 12], ["chair", 30]]), kind="application/json")
        elif url.path == "/slow":
            time.sleep(float(url.query))
            self.answer("<title>Slow</title>At last")
        elif url.path == "/drip":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>Drip</title><p>so far</p>" + b" " * 4096)
            self.wfile.flush()
            time.sleep(60)
        elif url.path in ("/late", "/broken"):
            self.send_response(200)
            self.send_header("Content-Disposition", f"attachment; filename={url.path[1:]}.bin")
            self.send_header("Content-Length", "2000")
            self.end_headers()
            self.wfile.write(bytes(1000))
            self.wfile.flush()
            if url.path == "/late":
                time.sleep(4)
                self.wfile.write(bytes(1000))
            self.close_connection = True
        elif url.path == "/loop":
            self.answer("", status=302, location="/loop")
        elif url.path == "/authorization":
            self.answer(f"<title>Authorization</title>{self.headers.get('Authorization')}")
        elif url.path == "/cookie":
            seen = self.headers.get("Cookie", "none")
            self.answer(f"<title>Cookie</title>{seen}", cookie="seen=yes")
        else:
            self.answer(f"<title>Missing</title>There is no {url.path} here", status=404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.answer("<title>Echo</title><pre>" + json.dumps(dict(parse_qsl(body))) + "</pre>")

    def answer(
        self, text: str, *, status: int = 200, kind: str = "text/html", location: str = "", cookie: str = ""
    ) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (("Location", location), ("Set-Cookie", cookie)):
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class Proxy(BaseHTTPRequestHandler):
    """A proxy as the sandbox's: lets `http://allowed.test` through, and answers for it; refuses the rest."""

    protocol_version = "HTTP/1.1"

    def do_CONNECT(self) -> None:
        self.refuse(self.path.partition(":")[0])

    def do_GET(self) -> None:
        host = urlsplit(self.path).hostname
        if host != "allowed.test":
            self.refuse(str(host))
            return
        content = f"<title>Through</title>asked for {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, host: str) -> None:
        reason = f"{host} is not in EGRESS_ALLOW"
        self.send_response(403, reason)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(reason)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reason.encode())
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def quoted(name: str) -> str:
    return "".join(f"%{byte:02X}" for byte in name.encode())


def main() -> None:
    port, *certificate = sys.argv[1:]
    handler = Proxy if port == "3128" else Site
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate[0])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()


if __name__ == "__main__":
    main()
