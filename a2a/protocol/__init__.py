"""The A2A protocol's server: JSON-RPC, HTTP+JSON, streams and push notifications."""
