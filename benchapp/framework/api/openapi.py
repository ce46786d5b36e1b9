"""The OpenAPI document: types of answers, formats, tokens. `posting/operations.py` adds the POST of results."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from inspect import cleandoc
from typing import Any, Final, get_args

from django.db import models
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from msgspec import Struct
from msgspec.json import schema_components

from benchapp.catalog.metrics import CATALOG, Unit
from benchapp.framework.api.answers import ApiAnswer, ChosenColumns, dump_json
from benchapp.framework.api.parameters import TERM_EXAMPLES
from benchapp.models import DirectionName

Json = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"
# RFC 6750.
TOKEN_SCHEME: Final[Json] = {"type": "http", "scheme": "bearer", "bearerFormat": "bench_…"}


@cache
def make_schema() -> tuple[Json, str]:
    """Generate the OpenAPI document and its ETag, once: it takes as long as a hundred other requests."""
    text = dump_json(SchemaGenerator().get_schema(request=None, public=True))  # type: ignore[no-untyped-call]
    return json.loads(text), f'W/"{hashlib.sha256(text).hexdigest()[:24]}"'


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Bearer tokens in the document."""

    target_class = "benchapp.framework.api.permissions.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> Json:
        """Return the scheme of RFC 6750."""
        return dict(TOKEN_SCHEME)


class AnswerExtension(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Types of answers in the document."""

    target_class = Struct
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: Any) -> str:
        """Return the name of the component."""
        return str(self.target.__name__)

    def get_identity(self, auto_schema: AutoSchema, direction: Any) -> str:
        """Return what all components of the type have in common: names are unique."""
        return str(self.target.__name__)

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> Json:
        """Return the schema of a type; register those of the types in it."""
        components = describe_answers([self.target])
        own = components.pop(self.target.__name__)
        for name, schema in components.items():
            component = ResolvedComponent(  # type: ignore[no-untyped-call]
                name=name, type=ResolvedComponent.SCHEMA, object=name, schema=schema
            )
            auto_schema.registry.register_on_missing(component)
        return own


def describe_answers(kinds: Sequence[type]) -> dict[str, Json]:
    """Return the schemas of types and of all types in them, by name."""
    _, components = schema_components(kinds, schema_hook=_describe_choices, ref_template=_REF)
    for schema in components.values():
        _require_defaults(schema)
    for kind in _list_subclasses(ChosenColumns):
        components.get(kind.__name__, {}).pop("required", None)
    return {name: _simplify(schema) for name, schema in components.items()}


def _require_defaults(schema: Json) -> None:
    """Make members with a default required: an answer always has them."""
    for name, member in schema.get("properties", {}).items():
        if "default" in member:
            del member["default"]
            schema.setdefault("required", []).append(name)


def in_formats(page: Any, lines: str) -> dict[tuple[int, str], Any]:
    """Return the responses of a list with the parameter `format`; lines: what CSV and NDJSON have."""
    text = OpenApiResponse(OpenApiTypes.STR, lines)
    return {
        (200, "application/json"): page,
        (200, "text/csv"): text,
        (200, "application/x-ndjson"): text,
    }


def _describe_choices(kind: type) -> Json:
    if issubclass(kind, models.TextChoices):
        return {"type": "string", "enum": list(kind.values)}
    raise NotImplementedError(f"{kind} has no schema")


def _list_subclasses(kind: type[ApiAnswer]) -> Iterator[type[ApiAnswer]]:
    for each in kind.__subclasses__():
        yield each
        yield from _list_subclasses(each)


def _simplify(schema: Any) -> Any:
    """Write null into the type and the enumeration of a schema, descriptions as lines, and leave out titles.

    An array of anything gets `items`, an enumeration its type: generators of clients need both.
    """
    if isinstance(schema, list):
        return [_simplify(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: _simplify(part) for name, part in schema.items() if name != "title" or isinstance(part, dict)
    }
    if "description" in found and isinstance(found["description"], str):
        found["description"] = cleandoc(found["description"])
    if found.get("type") == "array" and not {"items", "prefixItems"} & found.keys():
        found["items"] = {}
    if "enum" in found:
        found.setdefault("type", "string")
    kinds = found.get("anyOf", [])
    if len(kinds) == 2 and kinds[1] == {"type": "null"} and isinstance(kinds[0].get("type"), str):
        del found["anyOf"]
        found |= kinds[0] | {"type": [kinds[0]["type"], "null"]}
        if "enum" in found:
            found["enum"] = [*found["enum"], None]
    return found


def complete_document(result: Json, **kwargs: Any) -> Json:
    """Add what linters and generators of clients ask for: summaries, examples, vocabularies, security, errors."""
    for component, schema in result["components"]["schemas"].items():
        for name, member in schema.get("properties", {}).items():
            _add_vocabulary(member, _MORE_VALUES.get((component, name), ()) + _VOCABULARIES.get(name, ()))
    for path, operations in result["paths"].items():
        for operation in operations.values():
            operation["responses"].setdefault("default", _ERROR)
            operation["tags"] = [path.removeprefix("/api/v1/").partition("/")[0] or "index"]
            # Everybody may read it; without the member, `security` of the whole document would count.
            operation.setdefault("security", [])
            operation.setdefault("summary", _summarize(operation["description"]))
            for parameter in operation.get("parameters", ()):
                _add_example(parameter)
            if "requestBody" in operation:
                _add_body_example(operation["requestBody"])
    result["components"]["schemas"] = _state_types(result["components"]["schemas"])
    result["paths"] = _state_types(dict(sorted(result["paths"].items())))
    return result


def _state_types(schema: Any) -> Any:
    """Give numbers 64 bits, and write several types of a value, except text, number or null, as `anyOf`.

    Generators read a number without a format as one of 32 bits, and lose null beside an object or a list.
    """
    if isinstance(schema, list):
        return [_state_types(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        name: part if name in ("enum", "example") else _state_types(part) for name, part in schema.items()
    }
    kinds = found.get("type")
    if isinstance(kinds, list) and (kinds[1:] != ["null"] or kinds[0] in ("object", "array")):
        return _split_types(found)
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if kind in ("integer", "number"):
        found.setdefault("format", "int64" if kind == "integer" else "double")
    return found


def _split_types(schema: Json) -> Json:
    """Return a schema for each type of a schema; the first one has its constraints."""
    kinds, described = schema["type"], {k: v for k, v in schema.items() if k == "description"}
    first = {name: part for name, part in schema.items() if name not in ("type", "description")}
    return {
        "anyOf": [_state_types({"type": kinds[0], **first}), *({"type": k} for k in kinds[1:])],
        **described,
    }


def _summarize(description: str) -> str:
    """Return the first clause of a description."""
    return re.split(r"[.;:](?:\s|$)", description, maxsplit=1)[0].rstrip(".")


def _add_vocabulary(member: Json, values: tuple[str, ...]) -> None:
    """Add the values of a text whose name has one closed vocabulary."""
    kinds = member.get("type")
    if not values or "enum" in member or kinds not in ("string", ["string", "null"]):
        return
    member["enum"] = list(values) if kinds == "string" else [*values, None]


def _add_example(parameter: Json) -> None:
    schema, description = parameter["schema"], parameter.get("description", "")
    if schema.get("type") != "string" or {"enum", "format"} & schema.keys():
        return
    _, is_term, examples = description.partition(TERM_EXAMPLES)
    example = examples.split(", ")[0] if is_term else _EXAMPLES.get(parameter["name"])
    if example:
        parameter.setdefault("example", example)


def _add_body_example(body: Json) -> None:
    for content in body["content"].values():
        component = content["schema"].get("$ref", "").rpartition("/")[2]
        if component in _BODIES:
            content.setdefault("example", _BODIES[component])


# Members that have the same values wherever they occur.
_VOCABULARIES: Final[dict[str, tuple[str, ...]]] = {
    "metric": tuple(CATALOG),
    "unit": get_args(Unit),
    "direction": tuple(DirectionName.values),
}
# An expected change without a metric is one of all metrics; an incident without changes has none.
_MORE_VALUES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("DerivedValue", "unit"): ("operations",),
    ("IncidentAnswer", "metric"): ("",),
    ("ListedIncidentAnswer", "metric"): ("",),
    ("ListedPlannedEventAnswer", "metric"): ("",),
    ("PlannedEventAnswer", "metric"): ("",),
    ("PlannedEventInput", "metric"): ("",),
    ("TotalProvenance", "direction"): ("total",),
}
# Of query parameters, by name; those of terms are in their descriptions.
_EXAMPLES: Final = {
    "a": "host:db-01",
    "action": "created",
    "a_from": "-14d",
    "a_to": "-7d",
    "any": "runtime_s",
    "b": "host:db-02",
    "b_from": "-7d",
    "b_to": "now",
    "badge": "too-short,cached",
    "baseline": "label.branch:main",
    "block_size": "4k",
    "region": "eu-central-1",
    "vary": "volume_type,volume_count",
    "baseline_from": "2026-11-01",
    "chunk_size_bytes": "512k",
    "color": "block_size_bytes",
    "facet": "file_size_bytes",
    "filesystem": "xfs",
    "from": "-30d",
    "host": "db-01",
    "pool": "db",
    "instance_type": "m5.4xlarge",
    "metric": "iops",
    "metrics": "iops,latency_p99_ns",
    "page": "/history/?q=host:db-01",
    "mount_options": "rw,noatime",
    "name": "data",
    "object_id": "db-01",
    "predict": "6,12",
    "prefix": "gp",
    "profile": "quick",
    "provisioned_iops": "16000",
    "q": "host:db-* volume_type:gp3",
    "raid_level": "raid0",
    "reason_code": "no-report",
    "resolution": "auto",
    "rows": "pattern,block_size_bytes",
    "runs": "12,13",
    "series": "1,2,3",
    "signature": "n0Xb3JFMv1GxYjGqg0E8fZ1o6h3y0yq9Q5r0C2d7s4A",
    "started_at": "2026-11-21T10:00:00Z",
    "stripe_count": "4",
    "text": "db-",
    "time_zone": "Europe/Berlin",
    "title": "Disks of the fleet",
    "to": "now",
    "until": "2026-11-21T10:00:00Z",
    "username": "anna",
    "via": "bench_0bc358464nx6",
    "volume_count": "4",
    "volume_size_bytes": "500GiB",
    "volume_type": "gp3",
    "x": "volume_count",
}
# Of bodies, by the name of their component.
_BODIES: Final[dict[str, Json]] = {
    "TargetMappingInput": {"scope": "host:db-01", "pattern": "/mnt/run-*", "target_name": "data"},
    "AnyTokenInput": {"scope": "read", "label": "dashboard", "expires_at": "2027-06-30T00:00:00Z"},
    "BaselineInput": {"comment": "new disks"},
    "BulkTriageInput": {"incidents": [1, 2], "action": "resolve", "verdict": "noise"},
    "CorrectionInput": {
        "kind": "relabeling",
        "filter": "host:db-01 label.trial:1",
        "to_at": "2026-01-01T00:00:00Z",
        "changes": {"volume_type": "gp3", "label.rack": None},
        "reason": "a typing error in a cron job",
    },
    "MergeInput": {"host": "db-01", "into": "web-01", "dry_run": True},
    "SplitInput": {"host": "db-01", "name": "web-01", "filter": "kernel:6.1*", "dry_run": True},
    "RenameInput": {"scope": "host:db-01", "name": "web-01", "dry_run": True},
    "DetectionPolicyInput": {
        "metric": "iops",
        "smallest_change": 0.1,
        "filter": "host:db-01",
        "reason": "a noisy disk",
    },
    "EnrollmentInput": {"name": "db-09", "agent_version": "0.1.0"},
    "ExclusionInput": {"reason": "the RAID was rebuilt"},
    "PatchedCorrectionChanges": {"is_canceled": True},
    "PatchedDetectionPolicyChanges": {"is_canceled": True},
    "PatchedHostChanges": {"pool": "blue"},
    "PatchedIncidentChanges": {"comment": "seen"},
    "LinkInput": {"url": "/api/v1/status-badge?q=host:db-01&format=svg", "expires_at": "+30d"},
    "PatchedPlannedEventChanges": {"is_canceled": True},
    "PatchedStudyChanges": {"title": "Disks of the fleet"},
    "PlannedEventInput": {
        "kind": "maintenance",
        "from_at": "2026-12-31T00:00:00Z",
        "to_at": "2027-01-01T00:00:00Z",
        "reason": "new disks",
    },
    "PricesInput": {
        "prices": [
            {
                "volume_type": "gp3",
                "region": "eu-central-1",
                "currency": "USD",
                "per_gib_month": 0.0952,
                "valid_from": "2026-01-01",
            }
        ]
    },
    "PatchedTokenChanges": {"expires_at": "2027-06-30T00:00:00Z"},
    "RotationInput": {"overlap_s": 3600},
    "ConfirmationPolicyInput": {"pool": "blue", "runs": 3, "daily_share": 0.05},
    "HostPollInput": {
        "profiles": [{"profile": "quick", "parameters": {"runtime": {"minimum": 4, "maximum": 30}}}],
        "directories": ["/data"],
        "per_day": 4,
        "quiet_hours": ["08:00-18:00"],
        "waits_for": None,
        "waits_until": None,
    },
    "PatchedOwnRequestReport": {"state": "running", "duration_s": 18.0},
    "RunRequestInput": {"profile": "quick", "parameters": {"runtime": 10}, "directory": "/data"},
    "WantedScheduleInput": {
        "pool": "blue",
        "profile": "quick",
        "every_s": 21600,
        "at_minute": 120,
        "splay_s": 3600,
        "directory": "/data",
        "parameters": {"runtime": 10},
    },
    "WantedRunInput": {"profile": "quick", "every_s": 21600, "at_minute": 120, "directory": "/data"},
    "AdoptionInput": {
        "is_allowed": True,
        "profiles": [{"profile": "quick", "parameters": {"runtime": {"minimum": 4, "maximum": 30}}}],
        "directories": ["/data"],
        "per_day": 24,
        "quiet_hours": ["08:00-18:00"],
        "version": "",
        "refused": [],
        "problem": "",
    },
    "ScheduleInput": {"entries": [{"profile": "quick", "every_s": 21600, "directory": "/data"}]},
    "StudyInput": {"title": "Disks", "panels": [{"kind": "scaling", "query": "x=volume_count"}]},
    "SubscriptionInput": {"channel": "email", "address": "anna@example.org", "thresholds": ["p99 < 5 ms"]},
    "ThresholdInput": {"metric": "iops", "smallest_change": 0.02},
    "TokenInput": {"label": "cron"},
}
_ERROR: Final[Json] = {
    "description": "a problem; 429 and 503 have Retry-After",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}},
}
