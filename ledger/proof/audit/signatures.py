"""Signatures of people, proved: who enrolled each key, and that no copy of one was used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby, pairwise
from operator import attrgetter
from uuid import UUID

from ledger.events import ChangeKind, chain_of
from ledger.models import Event
from ledger.proof.audit.histories import History
from ledger.seals import Link
from ledger.sign_off import passkeys, rules
from ledger.sign_off.passkeys import ASSERTION, ENROLLED, Keys


class Signatures:
    """The sealed events of all signing keys, read once, and what was signed with each."""

    def __init__(self) -> None:
        changes = Event.objects.filter(to_state="")
        enrolled = changes.filter(kind=ENROLLED).values("subject")
        rows = changes.filter(kind__in=passkeys.KINDS, subject__in=enrolled)
        links = [Link(*v) for v in rows.order_by("subject", "seq").values_list(*Link._fields)]
        self._chains = {chain: [*each] for chain, each in groupby(links, attrgetter("subject"))}
        self._folds: dict[tuple[UUID, int], Keys] = {}
        # By principal and key: the event, and the counter of the key.
        self._uses: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self.keys = 0
        self.keys_by_two = 0  # operators, and not by another key of the person

    def keys_of(self, principal: str, before: int = 0) -> Keys:
        """As ``passkeys.keys_of``."""
        chain = chain_of(principal)
        links = [each for each in self._chains.get(chain, []) if not before or each.id < before]
        if (chain, len(links)) not in self._folds:
            self._folds[chain, len(links)] = passkeys.folded(links)
        return self._folds[chain, len(links)]

    def enrolment_faults(self) -> Iterator[str]:
        """Keys that neither a key of the person enrolled nor two operators."""
        for links in self._chains.values():
            for n, link in enumerate(links):
                if link.kind != ENROLLED:
                    continue
                asked = [each for each in links[:n] if each.kind == ChangeKind.CHANGE_REQUESTED]
                keys = passkeys.folded(links[:n])
                faults = [*passkeys.enrolment_faults(link, keys, asked)]
                yield from (f"event {link.id} of account {link.subject}: {f}" for f in faults)
                self.keys += not faults
                self.keys_by_two += not faults and ASSERTION not in link.says

    def activation_faults(self) -> Iterator[str]:
        """Rules that ended signing, activated by nobody's key."""
        rows = Event.objects.filter(to_state="", kind=ChangeKind.RULES_ACTIVATED)
        values = rows.order_by("subject", "seq").values_list(*Link._fields)
        for _chain, links in groupby((Link(*each) for each in values), attrgetter("subject")):
            yield from rules.activation_faults([*links], self.keys_of)

    def faults_of(self, history: History) -> Iterator[str]:
        """None: what was signed is judged with the moves. Notes the uses of each key."""
        for link in history.links:
            with suppress(ValueError, TypeError, LookupError):
                assertion = link.says[ASSERTION]
                use = (link.id, passkeys.counter_of(assertion))
                self._uses.setdefault((link.principal, assertion["credential"]), []).append(use)
        yield from ()

    def counter_faults(self) -> Iterator[str]:
        """Uses of a key whose counter went back since the use before: there may be a copy of it."""
        for (principal, _credential), uses in self._uses.items():
            for (_before, former), (event, counter) in pairwise(sorted(uses)):
                if counter <= former and (counter, former) != (0, 0):
                    yield f"event {event}: the counter of the key of {principal} went back."
