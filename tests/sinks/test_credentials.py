"""Credentials as fsspec has them reach delta-rs and Polars: seen by a server on this machine, in what they send."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import polars as pl
import pytest
from deltalake import DeltaTable

from barca.io.sinks import credentials

KEY = base64.b64encode(b"secret").decode()
ACCOUNT = {"account_name": "acct", "anon": False, "connection_string": None}


@pytest.fixture(scope="module")
def server():
    """Answers that there is nothing; keeps the paths and headers of requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.seen.append((self.path, dict(self.headers.items())))
            listing = "comp=list" in self.path or "list-type" in self.path
            kind = "EnumerationResults" if "comp=list" in self.path else "ListBucketResult"
            body = f'<?xml version="1.0"?><{kind}><Blobs></Blobs></{kind}>'.encode() if listing else b""
            self.send_response(200 if listing else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self):
            self.server.seen.append((self.path, dict(self.headers.items())))
            self.send_response(404)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.seen = []
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def asked(server, monkeypatch):
    """What delta-rs, and what Polars, send for a file of a store with a file system's credentials."""

    def ask(uri: str, fs) -> list[tuple[str, dict[str, str]]]:
        monkeypatch.setattr(credentials, "open_filesystem", lambda uri: (fs, ""))
        options = credentials.storage_options(uri)
        first = []
        for read in (
            lambda: DeltaTable(uri, storage_options=options),
            lambda: pl.scan_parquet(
                f"{uri}/x.parquet", storage_options=options, credential_provider=None
            ).collect(engine="in-memory"),
        ):
            server.seen.clear()
            with pytest.raises(Exception):
                read()
            assert server.seen, "it went elsewhere"
            first.append(server.seen[0])
        return first

    ask.port = server.server_address[1]
    return ask


def azure(**attributes):
    names = ("account_key", "sas_token", "client_id", "client_secret", "tenant_id")
    return SimpleNamespace(**{**dict.fromkeys(names), **ACCOUNT, **attributes})


def connection(port: int, secret: str) -> str:
    return (
        f"DefaultEndpointsProtocol=http;AccountName=acct;{secret};BlobEndpoint=http://127.0.0.1:{port}/acct;"
    )


def test_the_key_of_an_azure_account_signs(asked):
    fs = azure(connection_string=connection(asked.port, f"AccountKey={KEY}"))
    for path, headers in asked("abfs://box/t", fs):
        assert path.startswith("/acct/box")
        assert headers["authorization"].startswith("SharedKey acct:")


def test_a_signature_of_azure_is_sent(asked):
    text = connection(asked.port, "SharedAccessSignature=sv=2024-01-01&sig=abc%3D")
    for path, headers in asked("abfss://box/t", azure(connection_string=text)):
        assert "sig=abc%3D" in path
        assert "authorization" not in headers


def test_an_open_azure_account_is_asked_without_credentials(asked):
    fs = azure(anon=True, connection_string=connection(asked.port, "AccountKey="))
    for _, headers in asked("az://box/t", fs):
        assert "authorization" not in headers


def test_the_identity_that_azure_finds_is_sent_as_its_token(asked):
    scopes = []
    credential = SimpleNamespace(
        get_token=lambda scope: (scopes.append(scope), SimpleNamespace(token="TOKEN"))[1]
    )
    fs = azure(sync_credential=credential, connection_string=connection(asked.port, ""))
    for _, headers in asked("abfs://box/t", fs):
        assert headers["authorization"] == "Bearer TOKEN"
    assert set(scopes) == {"https://storage.azure.com/.default"}


def google(port: int | None, token=None):
    base = f"http://127.0.0.1:{port}/storage/v1/" if port else "https://storage.googleapis.com/storage/v1/"
    return SimpleNamespace(base=base, on_google=port is None, credentials=SimpleNamespace(token=token))


def test_an_emulator_of_google_is_asked_without_credentials(asked):
    for path, headers in asked("gs://box/t", google(asked.port)):
        assert path.startswith("/box")
        assert "authorization" not in headers


def test_s3_is_signed_with_the_keys_that_are_given(asked):
    fs = SimpleNamespace(
        client_kwargs={"region_name": "eu-north-1"},
        endpoint_url=f"http://127.0.0.1:{asked.port}",
        key="KEYID",
        secret="s",
        token="SESSION",
        anon=False,
    )
    for path, headers in asked("s3://box/t", fs):
        assert path.startswith("/box")
        assert "Credential=KEYID/" in headers["authorization"]
        assert "/eu-north-1/s3/" in headers["authorization"]
        assert headers["x-amz-security-token"] == "SESSION"


def options(uri: str, fs, monkeypatch) -> dict[str, str]:
    monkeypatch.setattr(credentials, "open_filesystem", lambda uri: (fs, ""))
    return credentials.storage_options(uri)


def test_other_forms_of_credentials(monkeypatch, tmp_path):
    file = tmp_path / "account.json"
    file.write_text("{}")
    found = options("gs://b/t", google(None, str(file)), monkeypatch)
    assert found == {"google_application_credentials": str(file)}
    account = {"type": "service_account", "private_key": "x"}
    found = options("gcs://b/t", google(None, account), monkeypatch)
    assert json.loads(found.pop("google_service_account_key")) == account
    assert found == {}
    assert options("gs://b/t", google(None, "anon"), monkeypatch) == {"google_skip_signature": "true"}
    assert options("gs://b/t", google(None), monkeypatch) == {}
    principal = {"client_id": "c", "client_secret": "s", "tenant_id": "t"}
    found = options("abfs://b/t", azure(account_host="a.blob.core.example", **principal), monkeypatch)
    assert found == {
        "azure_storage_account_name": "acct",
        "azure_storage_endpoint": "https://a.blob.core.example",
        **{f"azure_storage_{name}": value for name, value in principal.items()},
    }
    shared = azure(connection_string="BlobEndpoint=https://a.example;SharedAccessSignature=sig=1")
    assert options("abfs://b/t", shared, monkeypatch) == {
        "azure_storage_account_name": "acct",  # the string does not say it
        "azure_storage_endpoint": "https://a.example",
        "azure_storage_sas_token": "sig=1",
    }
    asked = SimpleNamespace(get_token=lambda scope: SimpleNamespace(token="TOKEN"))
    found = options("abfs://b/t", azure(account_key=KEY, sync_credential=asked), monkeypatch)
    assert found == {"azure_storage_account_name": "acct", "azure_storage_account_key": KEY}
    local = azure(account_name=None, connection_string="UseDevelopmentStorage=true")
    found = options("abfs://b/t", local, monkeypatch)
    assert found == {"azure_storage_use_emulator": "true", "azure_allow_http": "true"}

    def refuse(scope):
        raise RuntimeError("nobody is logged in")

    fs = azure(sync_credential=SimpleNamespace(get_token=refuse))
    assert options("abfs://b/t", fs, monkeypatch) == {"azure_storage_account_name": "acct"}
