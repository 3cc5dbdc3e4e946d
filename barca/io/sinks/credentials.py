"""Credentials that fsspec finds, in the words of Polars and delta-rs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from barca.io.sinks.remote import open_filesystem


def storage_options(uri: str) -> dict[str, str]:
    """What Polars and delta-rs need to open a URI as fsspec does; what is missing they look up themselves.

    Raises:
        SinkError: The library for its scheme is not installed.
    """
    fs, _ = open_filesystem(uri)
    scheme = uri.partition("://")[0].lower()
    found = _OPTIONS[scheme](fs) if scheme in _OPTIONS else {}
    return {name: str(value) for name, value in found.items() if value is not None}


def _s3(fs: Any) -> dict[str, Any]:
    client: dict[str, Any] = dict(fs.client_kwargs or {})
    in_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = fs.endpoint_url or client.get("endpoint_url") or in_environment
    key, secret, token = fs.key, fs.secret, fs.token
    if key is None and not fs.anon:
        key, secret, token = _resolved(fs)
    return {
        "aws_access_key_id": key,
        "aws_secret_access_key": secret,
        "aws_session_token": token,
        "aws_endpoint_url": endpoint,
        "aws_region": client.get("region_name"),
        "aws_allow_http": "true" if str(endpoint).startswith("http://") else None,
        "aws_skip_signature": "true" if fs.anon else None,
    }


def _resolved(fs: Any) -> tuple[str | None, str | None, str | None]:
    """Keys that the AWS libraries find: in the environment, a profile, or from the machine."""
    from botocore.session import Session

    credentials = Session(profile=fs.kwargs.get("profile")).get_credentials()
    if credentials is None:
        return None, None, None
    frozen = credentials.get_frozen_credentials()
    return frozen.access_key, frozen.secret_key, frozen.token


def _gcs(fs: Any) -> dict[str, Any]:
    endpoint = None if fs.on_google else str(fs.base).partition("/storage/v1")[0]
    token = fs.credentials.token
    is_open = token == "anon" or (endpoint and token is None)  # noqa: S105 - no password
    return {
        "google_application_credentials": token if isinstance(token, str) and Path(token).is_file() else None,
        "google_service_account_key": json.dumps(token) if isinstance(token, dict) else None,
        "google_skip_signature": "true" if is_open else None,
        "google_base_url": endpoint,
        "allow_http": "true" if str(endpoint).startswith("http://") else None,
    }


def _azure(fs: Any) -> dict[str, Any]:
    names = ("account_name", "account_key", "sas_token", "client_id", "client_secret", "tenant_id")
    found = {f"azure_storage_{name}": getattr(fs, name, None) for name in names}
    host = getattr(fs, "account_host", None)
    found["azure_storage_endpoint"] = host and f"https://{host}"
    found["azure_skip_signature"] = "true" if fs.anon else None
    if fs.connection_string:
        found |= {name: value for name, value in _connection(fs.connection_string).items() if value}
    if not fs.anon and not any(value for name, value in found.items() if name in _AZURE_SECRETS):
        found["azure_storage_token"] = _azure_token(fs)
    return found


_AZURE_SECRETS = ("azure_storage_account_key", "azure_storage_sas_token", "azure_storage_client_secret")


def _connection(text: str) -> dict[str, Any]:
    """What an Azure connection string says: `Name=value` between semicolons."""
    parts = {name.lower(): value for name, _, value in (part.partition("=") for part in text.split(";"))}
    endpoint = parts.get("blobendpoint")
    local = parts.get("usedevelopmentstorage", "").lower() == "true"
    return {
        "azure_storage_account_name": parts.get("accountname"),
        "azure_storage_account_key": parts.get("accountkey"),
        "azure_storage_sas_token": parts.get("sharedaccesssignature"),
        "azure_storage_endpoint": endpoint,
        "azure_storage_use_emulator": "true" if local else None,
        "azure_allow_http": "true" if local or str(endpoint).startswith("http://") else None,
    }


def _azure_token(fs: Any) -> str | None:
    """A token of the identity that the Azure libraries find, of the command line `az` for instance."""
    credential = getattr(fs, "sync_credential", None)
    if credential is None:
        return None
    try:
        return str(credential.get_token("https://storage.azure.com/.default").token)
    except Exception:  # delta-rs looks for itself, and says what it does not find
        return None


_OPTIONS = {"s3": _s3, "s3a": _s3, "gs": _gcs, "gcs": _gcs, "abfs": _azure, "abfss": _azure, "az": _azure}
