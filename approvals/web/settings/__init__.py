"""The place Settings: tools, agents, people, channels, the organisation."""
