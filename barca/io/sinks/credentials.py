"""Credentials that fsspec finds, in the words of Polars and delta-rs."""

from __future__ import annotations

import os
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
    return {
        "google_service_account": fs.token
        if isinstance(fs.token, str) and fs.token.endswith(".json")
        else None
    }


def _azure(fs: Any) -> dict[str, Any]:
    names = ("account_name", "account_key", "sas_token", "client_id", "client_secret", "tenant_id")
    return {f"azure_storage_{name}": getattr(fs, name, None) for name in names}


_OPTIONS = {"s3": _s3, "s3a": _s3, "gs": _gcs, "gcs": _gcs, "abfs": _azure, "abfss": _azure, "az": _azure}
