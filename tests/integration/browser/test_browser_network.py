"""`skills.browser`: trusted certificates, the proxy, and no open port."""

# ruff: noqa: E501 - long programs

from __future__ import annotations

import shlex
import ssl
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import browser_site
import pytest
import trustme
from browser_sandbox import AT, Fails, Run, serve

from libs.backends.docker import DockerExecutionBackend
from libs.gateway.credentials import Credentials, parse_credentials
from libs.gateway.gateway_limits import EgressLimits
from libs.gateway.gateway_thread import Gateway
from libs.gateway.proxy import Proxy
from libs.gateway.rules.addresses import Address
from libs.gateway.rules.allow_list import Rules
from libs.redaction import SecretFilter

ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.docker,
    pytest.mark.thorough,
    pytest.mark.timeout(1500),
]  # it may have to build the image


def test_only_authorities_of_the_bundle_are_trusted(
    run: Run, fails: Fails, sandbox: DockerExecutionBackend
) -> None:
    authority = trustme.CA()
    server = authority.issue_cert("localhost").private_key_and_cert_chain_pem.bytes()
    sandbox.upload_files([("/tmp/authority.pem", authority.cert_pem.bytes()), ("/tmp/server.pem", server)])
    sandbox.execute("cat /etc/ssl/certs/ca-certificates.crt /tmp/authority.pem > /tmp/bundle.pem")
    serve(sandbox, "8443", "/tmp/server.pem")
    run("browser.close()")
    assert fails("browser.open('https://localhost:8443/')") == (
        "the certificate of https://localhost:8443/ is not to be trusted: ERR_CERT_AUTHORITY_INVALID"
    )
    run("browser.close()")
    opened = run(
        "show(browser.open('https://localhost:8443/').title)", before="SSL_CERT_FILE=/tmp/bundle.pem"
    )
    assert opened.value == "Home"
    run("browser.close()")


def test_proxy_is_used_and_its_refusal_is_shown(
    run: Run, fails: Fails, sandbox: DockerExecutionBackend
) -> None:
    serve(sandbox, "3128")
    proxy = (
        "http_proxy=http://127.0.0.1:3128 HTTPS_PROXY=http://127.0.0.1:3128 NO_PROXY=localhost,127.0.0.1,::1"
    )
    run("browser.close()")
    run(f"browser.open('{AT}/')", before=proxy)
    assert "asked for http://allowed.test/" in run(
        "browser.open('http://allowed.test/')\nprint(browser.text())"
    )
    refused = "https://example.org/ was refused: example.org is not in EGRESS_ALLOW"
    assert fails("browser.open('example.org')", before=proxy) == refused
    told = run("show(browser.open('http://169.254.169.254/latest').status)")
    assert "[status 403: 169.254.169.254 is not in EGRESS_ALLOW]" in told
    assert "false" not in run(f"browser.open('{AT}/online')\nprint(browser.text())")
    run("browser.close()")


async def here(host: str, port: int) -> list[Address]:
    return [Address("127.0.0.1", port)]


def test_browser_works_through_the_gateway(browser_image: str, tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("api.test").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    plain, secure = (ThreadingHTTPServer(("127.0.0.1", 0), browser_site.Site) for _ in range(2))
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    secret = "a-token-of-some-length"
    credentials = Credentials(
        parse_credentials('{"api.test": {"header": "Authorization", "secret": "API_TOKEN"}}'),
        {"API_TOKEN": secret},
        SecretFilter({"API_TOKEN": secret}),
    )
    at, over_tls = f"http://site.test:{plain.server_port}", f"https://api.test:{secure.server_port}"
    rules = Rules.parse([at, over_tls])
    gateway = Gateway(
        lambda: Proxy(rules=rules, resolve=here, credentials=credentials, tls=trusting),
        limits=EgressLimits(rate=10_000),
        credential_hosts=credentials.hosts,
    )
    threads = [threading.Thread(target=server.serve_forever) for server in (plain, secure)]
    for thread in threads:
        thread.start()
    try:
        with DockerExecutionBackend(
            tmp_path, skills_dir=ROOT / "skills", image=browser_image, name="browser", egress=gateway.door
        ) as computer:

            def ask(program: str) -> str:
                return computer.execute(
                    f"python -c {shlex.quote(f'from skills import browser; {program}')}"
                ).output

            assert ask(f"print(browser.open('{at}/shop.html').title)") == "Shop\n"
            shown = ask(
                "browser.type('Search', 'lamp', submit=True); browser.click('Show prices'); print(browser.text())"
            )
            assert "2 lamps" in shown
            assert "chair\t30" in shown
            assert "/results/downloads/prices.csv" in ask("browser.click('Price list')")
            # Its TLS ends in the gateway, which adds the credential and takes it out of the answer.
            assert (
                ask(f"browser.open('{over_tls}/authorization'); print(browser.text())")
                == "Bearer [REDACTED]\n"
            )
            refused = ask("browser.open('https://other.test/')").splitlines()[-1]
            assert "https://other.test/ was refused: other.test:443 is not in EGRESS_ALLOW" in refused
            assert "other.test:80 is not in EGRESS_ALLOW" in ask("browser.open('http://other.test/')")
            assert "169.254.169.254" in ask("browser.open('http://169.254.169.254/')")
    finally:
        gateway.close()
        for server in (plain, secure):
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


def test_browser_opens_no_port(run: Run, sandbox: DockerExecutionBackend) -> None:
    """A page could ask a port: by its address, or by a name that leads there."""
    listening = "awk '$4 == \"0A\" {print $2}' /proc/net/tcp /proc/net/tcp6 | sort -u"
    run("browser.close()")
    before = sandbox.execute(listening).output
    run(f"browser.open('{AT}/')")
    assert sandbox.execute(listening).output == before
