"""Git buses: repositories over which organisations give each other's agents work."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now

from a2a.models import Task
from ledger.errors import Sentence
from ledger.foundation.crypto.encryption import SecretField
from ledger.models import Agent

POLL_EVERY = timedelta(seconds=30)
STUCK_AFTER = timedelta(hours=1)
is_branch = RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", "This is no name of a branch.")
is_id = RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._-]*$", "Letters, digits, dots, - and _ only.")


class Strangers(models.TextChoices):
    """Treatment of a request whose commit no allowed signer has signed."""

    ACCEPT = "accept", "take it"
    ASK = "ask", "ask a person first"
    REFUSE = "refuse", "answer with an error"


class GitBusQuerySet(models.QuerySet["GitBus"]):
    def without_secrets(self) -> GitBusQuerySet:
        """For pages: a secret that cannot be decrypted would fail them."""
        return self.defer("deploy_key", "signing_key", "password")


class GitBus(models.Model):
    """A git repository in which files are requests and answers (docs/git-bus.md).

    A bus has two names: ``agent`` is the other side, by which what arrives is submitted and whose
    skills are the methods that others offer there; ``participant`` and the tenant's name are ours.
    """

    agent = models.OneToOneField(Agent, on_delete=models.PROTECT, related_name="bus")
    url = models.CharField(max_length=500, help_text="https://…, ssh://… or git@host:path")
    branch = models.CharField(max_length=200, default="main", validators=[is_branch])
    deploy_key = SecretField(blank=True, help_text="Private SSH key, as ssh-keygen writes it.")
    signing_key = SecretField(
        blank=True,
        default="",
        db_default="",
        help_text="Private SSH key by which our commits are signed; empty: they are not.",
    )
    known_hosts = models.TextField(blank=True, help_text="Lines of ssh-keyscan for the server.")
    password = SecretField(blank=True, help_text="Over https: an access token.")
    participant = models.CharField(
        "our id there", max_length=100, validators=[is_id], help_text="Names our participant file."
    )
    strangers = models.CharField(
        "requests without a good signature",
        max_length=6,
        choices=Strangers,
        default=Strangers.ASK,
    )
    allowed_signers = models.TextField(
        blank=True, help_text="Lines of ssh-keygen's ALLOWED SIGNERS: alice@example ssh-ed25519 …"
    )
    poll_every = models.DurationField(
        default=POLL_EVERY, validators=[MinValueValidator(timedelta(seconds=1))]
    )
    stuck_after = models.DurationField(
        default=STUCK_AFTER, help_text="Claims of others that are older are shown to operators."
    )
    is_active = models.BooleanField(default=True)
    environment = models.TextField(
        blank=True,
        db_default="",
        help_text="The repository's folders, as first seen. If it names others, the bus stands"
        " still until this is emptied: then those count.",
    )

    # What the bus process found at its last pass.
    head = models.CharField(max_length=64, blank=True, help_text="Newest commit.")
    fetched_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    note = models.TextField(
        blank=True, db_default="", help_text="What the repository lacks, and what counts instead."
    )
    unusable = models.JSONField(default=list, help_text="Names in the inbox that are no requests.")
    rewritten_at = models.DateTimeField(
        null=True, help_text="When commits that were there had gone: somebody has forced a push."
    )
    # One process at a time: until then it holds the bus, and its hold has a number.
    look_at = models.DateTimeField(db_default=Now())
    busy_until = models.DateTimeField(null=True)
    hold = models.PositiveIntegerField(default=0)

    objects = GitBusQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "git buses"

    def __str__(self) -> str:
        return f"{self.agent} at {self.url}"

    @property
    def our_name(self) -> str:
        """The name of our commits, and our role there."""
        return self.agent.tenant.name

    @property
    def our_address(self) -> str:
        """The address of our commits, and the principal of our signatures."""
        return f"{self.participant}@assent.invalid"


class BusMethod(models.Model):
    """A method of the bus and a skill of the tenant: one that we offer there, or that we use."""

    bus = models.ForeignKey(GitBus, on_delete=models.CASCADE, related_name="methods")
    method = models.CharField(max_length=200)
    skill = models.SlugField(max_length=100, help_text="Id of a skill of the tenant.")
    is_ours = models.BooleanField(
        "offered by us", default=True, help_text="Else it is done by whoever takes it there."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="git_bus_method_once", fields=["bus", "method"])
        ]

    def __str__(self) -> str:
        return f"{self.method} → {self.skill}"


class Progress(models.TextChoices):
    """Stages of a request of the bus."""

    LEFT = "left", Sentence("left in the inbox")
    HELD = "held", Sentence("a person is asked whether to take it")
    CLAIMING = "claiming", Sentence("being claimed")
    TAKEN = "taken", Sentence("a task")
    ELSEWHERE = "elsewhere", Sentence("taken by another participant")
    SENDING = "sending", Sentence("being sent")
    SENT = "sent", Sentence("waiting for its answer")
    DONE = "done", Sentence("answered")
    PROBLEM = "problem", Sentence("waits for an operator")


class Wish(models.TextChoices):
    """An operator's wish for a request; the next pass carries it out."""

    RELEASE = "release", Sentence("put it back into the inbox")
    REFUSE = "refuse", Sentence("answer with an error")
    RETRY = "retry", Sentence("look at it again")


class BusRequestQuerySet(models.QuerySet["BusRequest"]):
    def stuck(self) -> BusRequestQuerySet:
        """Claimed by others, without an answer for longer than the bus lets them take."""
        late = Q(claimed_at__lte=Now() - F("bus__stuck_after"))
        return self.filter(late, progress=Progress.ELSEWHERE, ended_at=None)


class BusRequest(models.Model):
    """One request of a bus: one that we take (``is_ours`` false), or one that we have sent."""

    bus = models.ForeignKey(GitBus, on_delete=models.PROTECT, related_name="requests")
    request_id = models.CharField(max_length=128)
    is_ours = models.BooleanField(default=False)
    progress = models.CharField(max_length=10, choices=Progress)
    problem = models.TextField(blank=True)
    problem_source = models.JSONField(
        null=True, help_text="Code and values that the text was made from."
    )
    wish = models.CharField(max_length=10, choices=Wish, blank=True)
    wished_by = models.CharField(max_length=200, blank=True)
    wished_blob = models.CharField(
        max_length=64, blank=True, db_default="", help_text="The file that the operator has seen."
    )
    task = models.OneToOneField(
        Task, on_delete=models.PROTECT, null=True, related_name="bus_request"
    )
    # The question whether to take a stranger's request.
    admission = models.OneToOneField(
        Task, on_delete=models.PROTECT, null=True, related_name="bus_admission"
    )
    method = models.CharField(max_length=200, blank=True)
    parent_id = models.CharField(max_length=128, blank=True)
    blob = models.CharField(max_length=64, blank=True, help_text="git's id of the file.")
    # Who sent it: as the file names them, and as the commit does.
    sender_id = models.CharField(max_length=200, blank=True)
    commit = models.CharField(max_length=64, blank=True)
    author = models.CharField(max_length=400, blank=True)
    signer = models.CharField(max_length=200, blank=True)
    key = models.CharField(max_length=200, blank=True, help_text="Fingerprint of the signature.")
    doubt = models.CharField(
        max_length=200, blank=True, db_default="", help_text="Why no signature counts."
    )
    # Ours.
    claim_mark = models.CharField(max_length=32, blank=True, db_default="")
    claim_commit = models.CharField(max_length=64, blank=True)
    answer_commit = models.CharField(max_length=64, blank=True)
    processed_by = models.CharField(max_length=200, blank=True)
    claimed_at = models.DateTimeField(null=True, help_text="By the time of the commit.")
    at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    objects = BusRequestQuerySet.as_manager()

    class Meta:
        constraints = [
            # Clones on some systems do not tell upper from lower case in names of files.
            models.UniqueConstraint("bus", Lower("request_id"), name="git_bus_request_once")
        ]
        indexes = [
            models.Index(
                name="git_bus_request_open",
                fields=["bus", "progress"],
                condition=~Q(progress="done"),
            )
        ]

    def __str__(self) -> str:
        return f"{self.request_id} of {self.bus}"

    @property
    def sent_task(self) -> UUID:
        """The task of a request that we have sent, which has one."""
        assert self.task_id is not None
        return self.task_id

    def clean(self) -> None:
        if not self.request_id:
            raise ValidationError("A request has an id.")
