"""``manage.py after_restore``: what to do first with a database that came from a backup."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db.models.functions import Now

from ledger import execution
from ledger.contracts import RequiredApprover
from ledger.errors import LedgerError
from ledger.events import command_principal
from ledger.models import Event, Transaction
from ledger.proof.log import checkpoint_proof, checkpoints
from ledger.states import State
from ledger.transactions import coordinator


class Command(BaseCommand):
    help = (
        "Run it on a restored database before any other process: says how many events are lost, "
        "and marks in doubt whatever may have been carried out after the moment of the backup."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self._tell_what_is_lost()
        self._sign_off_by_policy()
        signed_off = Transaction.objects.filter(state=State.APPROVED).values_list("pk", flat=True)
        by = command_principal()
        doubted = sum(execution.doubt_restored(pk, by) for pk in list(signed_off))
        self.stdout.write(
            f"{doubted} signed-off transactions are in doubt now: their tools are asked for a "
            "receipt before anything is done again."
        )
        pending = Transaction.objects.pending().count()
        expired = Transaction.objects.pending().filter(expires_at__lte=Now()).count()
        self.stdout.write(
            f"{pending} transactions wait for a decision. Before you approve one, look in the "
            "owner's system whether it was carried out after the moment of the backup."
        )
        self.stdout.write(
            f"{expired} of them are past their expiry: workers end them, and their operation keys "
            "are free again then. Look in the owner's system before such a request is repeated."
        )

    def _sign_off_by_policy(self) -> None:
        """Sign off what needs no approver, as the sweeper would: it is doubted with the rest."""
        left = Transaction.objects.pending().filter(
            required_approver=RequiredApprover.NONE, expires_at__gt=Now()
        )
        for pk, digest, terms in list(left.values_list("pk", "intent_digest", "terms")):
            try:
                coordinator.approve_by_policy(pk, digest, terms)
            except LedgerError as failure:
                self.stderr.write(f"{pk} was not signed off by policy: {failure}")

    def _tell_what_is_lost(self) -> None:
        """Compare with the checkpoints that were published outside of the database."""
        stored = Event.objects.count()
        published, newest = checkpoint_proof.published_size(), checkpoints.latest()
        if published is None:
            self.stdout.write(
                f"{stored} events are here. No file of checkpoints (ASSENT_LOG_FILE) tells how "
                "many there were."
            )
            return
        covered = newest.size if newest is not None else 0
        if published <= covered:
            self.stdout.write(f"{stored} events are here, and no published checkpoint has more.")
            return
        self.stdout.write(
            self.style.ERROR(
                f"A checkpoint of {published} events was published, and {stored} are here: at "
                f"least {max(published - stored, 0)} are lost. The sweeper signs nothing that "
                "contradicts the published log; docs/scaling.md says how a new one is begun."
            )
        )
