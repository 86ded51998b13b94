"""What ended transactions are found by."""

from __future__ import annotations

from django.db import models


@models.CharField.register_lookup
@models.TextField.register_lookup
class Unaccented(models.Transform):
    """``name__unaccented``: without accents, as ``ledger.search.unaccented`` writes it."""

    lookup_name = "unaccented"
    function = "ledger_unaccented"


class SearchTerm(models.Model):
    """A term of one ended transaction: a word, or ``:risk:``, ``:tool:``, ``:id:`` and a value.

    The database writes the rows when a transaction ends and deletes those of erased content
    (``ledger/sql/search_terms.sql``). The primary key gives the newest of a term without a sort.
    """

    pk = models.CompositePrimaryKey("tenant", "term", "transaction_id")
    tenant = models.CharField(max_length=63)
    # By bytes: the words with one beginning are neighbours in the index.
    term = models.CharField(max_length=110, db_collation="C")
    transaction_id = models.UUIDField()

    def __str__(self) -> str:
        return self.term
