"""Pages of tools: all of them, a registered one, MCP servers, secrets, a try."""
