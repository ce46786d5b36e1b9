"""Hosts, API tokens, signed links."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final, Self

from django.db import models
from django.db.models import Exists, OuterRef, Value
from django.db.models.functions import Concat, Lower

from benchapp.catalog.metrics import format_count
from benchapp.models.account import User, name_limit, name_person, pools_field
from benchapp.models.list_entry import Resource

# The host of the sample data (manage.py load_sample). Counts of hosts leave it out: nothing runs on it.
SAMPLE_HOST: Final = "ebs-2013"
# Names and ranges of a sentence; more hosts are counted.
_PLACES_MAXIMUM: Final = 3
_RANGE_FROM: Final = 3


def name_scopes(scopes: Sequence[str]) -> str:
    """Name scopes in a sentence: "db-1", "pool web", "db-03 and db-09 to db-16", "20 hosts", "2 hosts and 1 pool"."""
    pools = [scope for scope in scopes if scope.startswith("pool:")]
    places = [f"pool {scope.removeprefix('pool:')}" for scope in sorted(pools)]
    places += _name_ranges([scope.removeprefix("host:") for scope in scopes if scope not in pools])
    if len(places) <= _PLACES_MAXIMUM:
        *first, last = places or [""]
        return " and ".join([*([", ".join(first)] if first else []), last])
    counts = [(len(scopes) - len(pools), "host"), (len(pools), "pool")]
    return " and ".join(format_count(count, noun) for count, noun in counts if count)


def _name_ranges(names: Sequence[str]) -> list[str]:
    """Return the names in the order of their last number, three and more with consecutive numbers as a range."""
    numbered = sorted(
        (match[1], int(match[2] or -1), name)
        for name in names
        if (match := re.fullmatch(r"(.*?)([0-9]{0,9})", name, re.ASCII | re.DOTALL))
    )
    places: list[str] = []
    for _, members in groupby(enumerate(numbered), key=lambda entry: (entry[1][0], entry[1][1] - entry[0])):
        own = [name for _, (_, _, name) in members]
        places += own if len(own) < _RANGE_FROM else [f"{own[0]} to {own[-1]}"]
    return places


class FormerName(models.Model):
    """A name that a host or pool had: an alias. scope, present: host:NAME or pool:NAME, of then and of now.

    Also of a series whose points are in another one now, as series:ID.

    undo: of a host that was merged into another one, for 30 days: {host: its row, submissions, tokens: their ids,
    aliases: scopes}.
    """

    scope = models.CharField(max_length=260, unique=True)
    present = models.CharField(max_length=260)
    renamed_at = models.DateTimeField(help_text="server's clock")
    undo = models.JSONField(null=True)

    def __str__(self) -> str:
        return f"{self.scope} is now {self.present}"

    @property
    def name(self) -> str:
        """Return the former name."""
        return self.scope.partition(":")[2]

    @property
    def place(self) -> str:
        """Return the host or pool in words: "host db-1"."""
        return self.present.replace(":", " ", 1)


def read_present_scopes(scopes: Iterable[str]) -> dict[str, str]:
    """Return the present scope of each former one of these, by it in lower case; one query, none without scopes.

    Not of a pool that has hosts again, maybe in another case.
    """
    folded = [scope.lower() for scope in scopes]
    if not folded:
        return {}
    found = FormerName.objects.annotate(folded=Lower("scope")).filter(folded__in=folded)
    pools = Host.objects.annotate(folded=Lower(Concat(Value("pool:"), "pool")))
    found = found.exclude(Exists(pools.filter(folded=OuterRef("folded"))))
    return dict(found.values_list("folded", "present"))


# What of an address may be a former name: the part of its path by the kind of the scope.
FOLLOWED: Final[Mapping[str, str]] = {"host": "name", "series": "series_id"}


def follow_name(kind: str, name: str) -> str:
    """Return the present name of the host or pool of this name, which may be a former one; one query."""
    return read_present_scopes([f"{kind}:{name}"]).get(f"{kind}:{name}".lower(), f":{name}").partition(":")[2]


class HostQuerySet(models.QuerySet["Host"]):
    """Queries over hosts."""

    def active(self) -> Self:
        """Exclude retired hosts."""
        return self.filter(retired_at__isnull=True)


@dataclass(frozen=True, slots=True)
class InstalledSchedule:
    """A schedule as the agent of a host reported it.

    at_minute: after midnight, local time; parameters: those that differ from their default, in base units; both None if
    the agent does not report them. is_from_server: adopted.
    """

    profile: str
    directory: str
    every_s: int
    splay_s: int
    at_minute: int | None = None
    parameters: Mapping[str, int | str] | None = None
    is_from_server: bool | None = None


class Host(models.Model):
    """A machine that runs benchmarks.

    pool: hosts of one pool share their series, so that replacing a host does not end its history.
    last_seen_at: the last use of its token, to 10 minutes, or its enrollment; imported results do not count.
    run_count: its runs, counted in the transaction that stores them: counting rows would take longer with each run.
    new_series_on, new_series_count: how many series its results added on that day, UTC by the server's clock.
    schedule: [{profile, every_s, splay_s, directory}], of newer agents also {at_minute, parameters, is_from_server};
    null: not reported, empty: nothing is scheduled.
    """

    name = models.CharField(max_length=253, unique=True)
    pool = models.CharField(max_length=100, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField(null=True, blank=True, help_text="server's clock")
    agent_version = models.CharField(max_length=50, blank=True, default="")
    agent_installation = models.CharField(
        max_length=20,
        blank=True,
        default="",
        db_default="",
        help_text="how its agent is installed; empty: unknown",
    )
    dropped_count = models.PositiveIntegerField(
        default=0, db_default=0, help_text="results that the full spool of its agent dropped"
    )
    dropped_at = models.DateTimeField(null=True, blank=True, help_text="host's clock, of the last one")
    clock_offset_s = models.BigIntegerField(
        null=True, blank=True, help_text="positive: ahead of the server; null: unknown, or up to 90 s"
    )
    retired_at = models.DateTimeField(null=True, blank=True)
    run_count = models.PositiveIntegerField(default=0, db_default=0)
    new_series_on = models.DateField(null=True, blank=True)
    new_series_count = models.PositiveIntegerField(default=0, db_default=0)
    schedule = models.JSONField(null=True, blank=True)
    schedule_since_at = models.DateTimeField(
        null=True, blank=True, help_text="server's clock, at the last change"
    )
    schedule_reported_by = models.CharField(
        max_length=100, blank=True, default="", help_text="token that reported it"
    )

    objects = HostQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(schedule__isnull=True, schedule_since_at__isnull=True)
                | models.Q(schedule__isnull=False, schedule_since_at__isnull=False),
                name="host_schedule_is_known_since_a_moment",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def count_new_series(self, now: datetime) -> int:
        """Return how many series its results added on the day of `now`, UTC."""
        return self.new_series_count if self.new_series_on == now.astimezone(UTC).date() else 0

    @property
    def scope(self) -> str:
        """Return the scope of the series of this host: its pool, else the host."""
        return f"pool:{self.pool}" if self.pool else f"host:{self.name}"


class Scope(models.TextChoices):
    """Permissions of a token."""

    INGEST = "ingest", "Posts the results of one host"
    READ = "read", "Reads everything"
    ADMIN = "admin", "Reads everything and manages hosts"
    ENROLL = "enroll", "Enrolls new hosts"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Queries over tokens."""

    def valid_at(self, now: datetime) -> Self:
        """Filter tokens that are neither revoked nor expired at a given time."""
        return self.filter(
            models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=now), revoked_at__isnull=True
        )


class ApiToken(models.Model):
    """A bearer token: `bench_<public id>_<secret><CRC>`; only the SHA-256 of the secret is stored.

    pools: a token that reads is limited to these. host_pattern: of names that a token enrolls, "" for any.
    """

    public_id = models.CharField(max_length=12, unique=True)
    digest = models.BinaryField(max_length=32)
    scope = models.CharField(max_length=8, choices=Scope)
    host = models.ForeignKey(Host, null=True, blank=True, on_delete=models.CASCADE, related_name="tokens")
    label = models.CharField(max_length=100, blank=True, default="")
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="written at most every 10 minutes")
    pools = pools_field()
    host_pattern = models.CharField(max_length=253, blank=True, default="", db_default="")

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(scope__in=Scope.values), name="api_token_scope_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(scope=Scope.READ) | models.Q(pools=[]), name="api_token_with_pools_reads"
            ),
            models.CheckConstraint(
                condition=models.Q(scope=Scope.INGEST, host__isnull=False)
                | (~models.Q(scope=Scope.INGEST) & models.Q(host__isnull=True)),
                name="api_token_has_a_host_exactly_when_it_ingests",
            ),
        )

    def __str__(self) -> str:
        return f"bench_{self.public_id}_… ({self.scope})"

    @property
    def scope_text(self) -> str:
        """Return what the token may do: "Reads only pool db"."""
        limit = f"Reads {name_limit(self.pools)}" if self.pools else Scope(self.scope).label
        return f"{limit} named {self.host_pattern}" if self.host_pattern else limit


class SignedLinkQuerySet(models.QuerySet["SignedLink"]):
    """Queries over signed links."""

    def open_at(self, now: datetime) -> Self:
        """Filter links that can be read at a given time: until they expire, are revoked, or lose their maker.

        Their maker is the token, else the account.
        """
        made = models.Q(token__in=ApiToken.objects.valid_at(now)) | models.Q(
            token__isnull=True, created_by__in=User.objects.filter(is_active=True)
        )
        return self.filter(made, revoked_at__isnull=True, expires_at__gt=now)


class SignedLink(models.Model):
    """An address of the API that is read without a token.

    url: path and query as signed, without expiry and signature, parameters by name. token: that made it, null for a
    session; created_by: the person, of a token the owner. is_numbered: False for a link of before links had ids.
    """

    url = models.TextField()
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    token = models.ForeignKey(ApiToken, null=True, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(help_text="server's clock")
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    is_numbered = models.BooleanField(default=True)

    objects = SignedLinkQuerySet.as_manager()

    class Meta:
        indexes = (
            # accounts.read.page_links: newest first.
            models.Index(fields=["-created_at", "-id"], name="signed_link_by_time"),
        )

    def __str__(self) -> str:
        return f"signed link {self.pk} to {self.url}"


class TargetMapping(Resource):
    """Targets of a host or pool that match a pattern have one name.

    scope: host:NAME or pool:NAME. pattern: a shell pattern, compared with the name and with the path that fio opens.
    removed_at: when it was removed; the row goes when history has been read again. null while it applies.
    """

    given = ("scope", "pattern", "target_name")

    scope = models.CharField(max_length=260)
    pattern = models.CharField(max_length=200)
    target_name = models.CharField(max_length=200)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True, help_text="server's clock")

    class Meta:
        constraints = (
            # Also serves storage.read.target_mappings: those of some hosts and pools.
            models.UniqueConstraint(
                fields=["scope", "pattern"],
                condition=models.Q(removed_at__isnull=True),
                name="target_mapping_is_unique",
            ),
        )

    def __str__(self) -> str:
        return f"{self.pattern} → {self.target_name}"

    @property
    def created_by_name(self) -> str:
        """Return who added it; "" if that is not known."""
        return name_person(self.created_by)

    @property
    def place(self) -> str:
        """Return the host or pool in words: "host db-1"."""
        return self.scope.replace(":", " ", 1)
