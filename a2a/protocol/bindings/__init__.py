"""The three bindings of the protocol: each reads requests and writes what is sent for them."""

from a2a.protocol.bindings.http_json import ROUTES, HttpJson
from a2a.protocol.bindings.json_rpc import JsonRpc
from a2a.protocol.bindings.v03 import JsonRpcOfV03

Binding = HttpJson | JsonRpc

__all__ = ["ROUTES", "Binding", "HttpJson", "JsonRpc", "JsonRpcOfV03"]
