"""The A2A protocol's server: JSON-RPC, HTTP+JSON, streams and push notifications.

One transport beside the plain dialect (``a2a.rest``). Another one, such as git, would be a package
beside these two, over the same verbs (``a2a.tasks``, ``a2a.submissions``).
"""
