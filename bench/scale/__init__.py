"""``make scale``: what people and agents click, with a thousand rows and with a million."""
