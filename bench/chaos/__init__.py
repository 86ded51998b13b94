"""``make chaos``: a storm of faults over the whole product, and the comparison of three records.

``script`` derives from a seed what agents propose, what people decide and which faults happen
when. ``storm`` runs it against a real installation. Three records are written meanwhile and know
nothing of each other: what each client was told, the ledger, and the file of the outside service
that the tools call. ``checker`` compares them; docs/chaos.md says what it proves.
"""
