"""Upload fio output through the browser, for hosts that cannot post it."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from threading import BoundedSemaphore
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.framework.pages.access import needs_role
from benchapp.framework.queue import wake_up
from benchapp.intake.importing.checking import (
    PATTERN_LENGTH,
    BadFileParameters,
    FileParameters,
    NamePattern,
    UnknownFile,
    is_log,
    make_submission,
    pair_logs,
    read_name_pattern,
    read_parameter_table,
)
from benchapp.intake.importing.discovery import (
    UnreadableFile,
    is_archive_file,
    list_members,
    open_bytes,
    unpack_bytes,
)
from benchapp.intake.normalize.batch import Rejection
from benchapp.intake.normalize.preview import (
    FieldDifference,
    NearestSeries,
    Preview,
    PreviewMeasurement,
    check_format_in_process,
    preview_incoming,
)
from benchapp.intake.posts.envelope import BadEnvelope, BadParameter, read_parameters
from benchapp.intake.posts.format_check import check_format_quickly
from benchapp.intake.posts.metadata import BadLayout
from benchapp.intake.posts.submissions import (
    VALIDATED_BYTES_MAXIMUM,
    AcceptOutcome,
    IncomingSubmission,
    accept_submission,
    find_known,
)
from benchapp.models import Host, Role, Target, follow_name
from benchapp.series.pages.run_tables import BADGES
from benchapp.series.read.titles import describe_target, describe_value, describe_workload, join_titles
from benchapp.series.validity.rules import SEVERAL_TARGETS

# The newest layouts: an installation has a few hundred.
_TARGETS_MAXIMUM: Final = 2000
_TEXTS: Final = ("volume_type", "raid_level", "filesystem", "instance_type")


def list_target_values() -> Mapping[str, tuple[str, ...]]:
    """Return the values of the newest layouts by field, in alphabetical order; one query."""
    rows = list(Target.objects.order_by("-pk").values_list(*_TEXTS)[:_TARGETS_MAXIMUM])
    return {
        name: tuple(sorted({row[place] for row in rows} - {None, ""})) for place, name in enumerate(_TEXTS)
    }


TABLE_BYTES_MAXIMUM: Final = 2**20
_SELECTED: Final = {
    "volume_type": "Volume type",
    "raid_level": "RAID level",
    "filesystem": "Filesystem",
    "instance_type": "Instance type",
}
# With examples.
_TYPED: Final = {
    "volume_count": ("Volumes", "4"),
    "volume_size_bytes": ("Size of a volume", "500GiB"),
    "provisioned_iops": ("IOPS provisioned", "16k"),
    "stripe_count": ("Stripes", "4"),
    "chunk_size_bytes": ("Chunk size", "512k"),
}


class ManyFilesInput(forms.FileInput):
    """A file input for several files."""

    allow_multiple_selected = True


class ManyFilesField(forms.FileField):
    """Several files; an empty one is accepted here and reported by the reader."""

    widget = ManyFilesInput

    def clean(self, data: Any, initial: Any = None) -> Any:
        """Return the list of files."""
        files = data if isinstance(data, list | tuple) else [data]
        return [super(ManyFilesField, self).clean(file, initial) for file in files or [None]]


class UploadFilesForm(forms.Form):
    """Files with fio output, and the layout that they were measured on.

    values: of earlier layouts by field, which can be selected; others are written among the other parameters.
    """

    host = forms.CharField(
        max_length=253,
        help_text="The host that produced the results.",
        widget=forms.TextInput(attrs={"list": "known-hosts", "autocomplete": "off"}),
    )
    layout = forms.CharField(
        label="Other parameters",
        required=False,
        max_length=4000,
        help_text="One per line, as in the API: mount_options=noatime, profile=nightly, label.rack=r12.",
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )
    name_pattern = forms.CharField(
        label="Pattern of file names",
        required=False,
        max_length=PATTERN_LENGTH,
        help_text="Layout per file: {volume_type}-{volume_count}x-* reads gp3-4x-run7.json. * is any text; with / it"
        " matches folders, too: {volume_type}/{volume_count}x/*.",
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocomplete": "off"}),
    )
    table = forms.FileField(
        label="Table of parameters",
        required=False,
        help_text="Layout per file: a CSV with the column file and columns as volume_type, volume_count, label.rack.",
        widget=forms.FileInput(attrs={"accept": ".csv,text/csv"}),
    )
    folder = forms.CharField(required=False, max_length=1000, widget=forms.HiddenInput)
    file = ManyFilesField(
        label="fio output",
        allow_empty_file=True,
        help_text="JSON, JSON+, terse or text, also packed or in zip and tar archives. "
        "fio logs (NAME_bw.1.log, …) are attached to the output that they belong to.",
    )

    def __init__(self, *args: Any, values: Mapping[str, Sequence[str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, label in _SELECTED.items():
            known = [(value, value) for value in values[name]]
            self.fields[name] = forms.ChoiceField(
                label=label, required=False, choices=[("", "not stated"), *known]
            )
        for name, (label, example) in _TYPED.items():
            attributes = {"placeholder": example, "autocomplete": "off"}
            self.fields[name] = forms.CharField(
                label=label, required=False, max_length=40, widget=forms.TextInput(attrs=attributes)
            )

    def list_host_fields(self) -> list[forms.BoundField]:
        """Return the field of the host."""
        return [self["host"]]

    def list_layout_fields(self) -> list[forms.BoundField]:
        """Return the fields of the layout."""
        return [self[name] for name in (*_SELECTED, *_TYPED)]

    def list_other_fields(self) -> list[forms.BoundField]:
        """Return the fields of several files and of parameters without a field."""
        return [self[name] for name in ("layout", "name_pattern", "table")]

    def list_file_fields(self) -> list[forms.BoundField]:
        """Return the field of the files."""
        return [self["file"]]

    def has_other_values(self) -> bool:
        """Return whether a field of `list_other_fields` is filled in or wrong."""
        return any(field.errors or field.data for field in self.list_other_fields())

    def clean_name_pattern(self) -> NamePattern | None:
        """Return the pattern."""
        try:
            return read_name_pattern(self.cleaned_data["name_pattern"])
        except BadFileParameters as error:
            raise forms.ValidationError(f"{error}.") from error

    def clean_table(self) -> dict[str, dict[str, str]] | None:
        """Return the parameters by file name."""
        file = self.cleaned_data["table"]
        if file is None:
            return None
        if file.size > TABLE_BYTES_MAXIMUM:
            raise forms.ValidationError(f"The table exceeds {TABLE_BYTES_MAXIMUM // 2**20} MiB.")
        try:
            return read_parameter_table(file.read().decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise forms.ValidationError(
                f"Not valid UTF-8 at byte {error.start}: save the table as UTF-8."
            ) from error
        except BadFileParameters as error:
            raise forms.ValidationError(f"{error}.") from error

    def list_parameters(self) -> Iterator[tuple[str, str]]:
        """Yield name and value of the parameters of all files; a name may occur twice. Of a valid form only."""
        for name in (*_SELECTED, *_TYPED):
            if value := self.cleaned_data[name].strip():
                yield name, value
        # Browsers end lines with CRLF.
        for line in self.cleaned_data["layout"].splitlines():
            if line.strip():
                name, _, value = line.partition("=")
                yield name.strip(), value.strip()


# Of one file.
_SERIES_MAXIMUM: Final = 20
# More differences are another workload or layout altogether.
_DIFFERENCES_MAXIMUM: Final = 3
_OPTION: Final = "options."


def describe_preview(preview: Preview) -> tuple[tuple[dict[str, Any], ...], int]:
    """Return the series of a preview, at most 20, and the number of further ones."""
    measurements = [each for _, measurements in preview.runs for each in measurements]
    unique = {(each.series.pk, _make_title(each)): each for each in measurements}
    shown = [_describe(each, title) for (_, title), each in list(unique.items())[:_SERIES_MAXIMUM]]
    return tuple(shown), len(unique) - len(shown)


def _describe(measurement: PreviewMeasurement, title: str) -> dict[str, Any]:
    badges = measurement.values["badges"]
    advice = BADGES[SEVERAL_TARGETS].advice
    mixing = next(
        (f"{badge['sentence']} {advice}" for badge in badges if badge["code"] == SEVERAL_TARGETS), ""
    )
    nearest = measurement.nearest if measurement.series.pk is None else None
    return {
        "title": title,
        "series": measurement.series.pk,
        "nearest": nearest.series.pk if nearest else None,
        "differences": _describe_differences(nearest) if nearest else "",
        "mixing": mixing,
    }


def _make_title(measurement: PreviewMeasurement) -> str:
    series = measurement.series
    return join_titles(describe_workload(series, direction=series.direction), describe_target(series))


def _describe_differences(nearest: NearestSeries) -> str:
    shown = [_describe_difference(each) for each in nearest.differences[:_DIFFERENCES_MAXIMUM]]
    left = len(nearest.differences) - len(shown)
    noun = "difference" if left == 1 else "differences"
    return ", ".join([*shown, *([f"and {left} more {noun}"] if left else [])])


def _describe_difference(difference: FieldDifference) -> str:
    return (
        f"{_name_field(difference.field)} {_format(difference.field, difference.value)}"
        f" instead of {_format(difference.field, difference.nearest)}"
    )


def _name_field(field: str) -> str:
    if field in DIMENSIONS:
        return DIMENSIONS[field].label
    return field.removeprefix(_OPTION)


def _format(field: str, value: Any) -> str:
    if value is None:
        return "not stated"
    return describe_value(field, value) if field in DIMENSIONS else str(value)


_STATUSES: Final = {AcceptOutcome.NEW: 202, AcceptOutcome.REPLAYED: 200, AcceptOutcome.CONFLICT: 409}
# Each parses, and compares with existing series; threads of the process must remain for other requests.
_PREVIEWS: Final = BoundedSemaphore(2)
# Of an archive: a request checks them all.
_MEMBERS_MAXIMUM: Final = 500
_FILE_STATUSES: Final = {"body-too-big": 413, "gzip-invalid": 400, "body-empty": 400}


@dataclass(frozen=True, slots=True)
class FileResult:
    """Result of one file. status, code: as in the API, 503 if there is no preview; id: empty if nothing was stored.

    log_count: number of logs attached to it. series: those that it would join or create, of a preview; None if it was
    not previewed. omitted: number of further ones.
    """

    name: str
    status: int
    code: str = ""
    detail: str = ""
    id: str = ""
    state: str = ""
    log_count: int = 0
    series: tuple[dict[str, Any], ...] | None = None
    omitted: int = 0

    @property
    def is_accepted(self) -> bool:
        """Return whether the file is stored, now or from an earlier upload."""
        return self.status in (200, 202)

    @property
    def is_new(self) -> bool:
        """Return whether the file was accepted just now."""
        return self.status == 202

    def as_row(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self)


def take_files(
    host_id: int, files: Sequence["UploadedFile[Any]"], *, parameters: FileParameters, is_preview: bool
) -> list[FileResult]:
    """Accept each output with its logs; return the result of each output and of each unmatched log.

    is_preview: tell what each would become, and store nothing.
    """
    if not is_preview:
        return _take_all(host_id, files, parameters=parameters, is_preview=False)
    if not _PREVIEWS.acquire(blocking=False):
        detail = "other files are being previewed: try again"
        return [FileResult(file.name or "", 503, "busy", detail) for file in files]
    try:
        return _take_all(host_id, files, parameters=parameters, is_preview=True)
    finally:
        _PREVIEWS.release()


def _take_all(
    host_id: int, files: Sequence["UploadedFile[Any]"], *, parameters: FileParameters, is_preview: bool
) -> list[FileResult]:
    contents, names, results = _read_all(files)
    check = check_format_in_process if is_preview else check_format_quickly
    for folder in dict.fromkeys(path.parent for path in contents):
        inside = {path.name: content for path, content in contents.items() if path.parent == folder}
        logs = [name for name, content in inside.items() if is_log(name, content[:64])]
        others = [name for name in inside if name not in logs]
        faults = {name: fault for name in others if (fault := check(inside[name])) is not None}
        outputs = [name for name in others if name not in faults]
        logs_of, unmatched = pair_logs(outputs, logs)
        placed = replace(parameters, folder=(PurePosixPath(parameters.folder) / folder).as_posix())
        for name in outputs:
            own = {log: inside[log] for log in logs_of.get(name, ())}
            results.append(
                _take(
                    host_id,
                    folder / name,
                    inside[name],
                    parameters=placed,
                    file_name=names[folder / name],
                    logs=own,
                    is_preview=is_preview,
                )
            )
        results += [_reject(folder / name, fault.code, fault.detail) for name, fault in faults.items()]
        results += [_reject(folder / name, "log-alone", f"fio log: {why}") for name, why in unmatched.items()]
    return results


def _read_all(
    files: Sequence["UploadedFile[Any]"],
) -> tuple[dict[PurePosixPath, bytes], dict[PurePosixPath, str], list[FileResult]]:
    """Return files and members by unique path, unpacked, their own names, and the results of unreadable ones.

    The limit of one body applies to all files together: a form of small gzips must not fill the memory.
    """
    contents: dict[PurePosixPath, bytes] = {}
    names: dict[PurePosixPath, str] = {}
    rejected: list[FileResult] = []
    for file in files:
        path = PurePosixPath(file.name or "")
        try:
            members = _list_members(file, path)
        except UnreadableFile as error:
            rejected.append(_reject(path, error.code, str(error)))
            continue
        for place, packed in members:
            unique = _make_unique_path(place, names)
            names[unique] = place.name
            try:
                contents[unique] = _read(place, packed, sum(map(len, contents.values())))
            except UnreadableFile as error:
                rejected.append(_reject(unique, error.code, str(error)))
    return contents, names, rejected


def _make_unique_path(path: PurePosixPath, taken: Container[PurePosixPath]) -> PurePosixPath:
    """Return the path, with a number if files of several folders share its name."""
    number, unique = 2, path
    while unique in taken:
        unique, number = path.with_name(f"{path.name} ({number})"), number + 1
    return unique


def _list_members(file: "UploadedFile[Any]", path: PurePosixPath) -> list[tuple[PurePosixPath, bytes]]:
    """Return the members of an archive under its name, or the file itself, which may be packed."""
    content, limit = file.read(), settings.UNPACKED_LIMIT_BYTES
    if not is_archive_file(open_bytes(content)):
        return [(path, content)]
    try:
        members = list_members(open_bytes(content), limit=limit, total=limit, count=_MEMBERS_MAXIMUM)
        return [(path / member.place, member.content) for member in members]
    except UnreadableFile as error:
        if error.code != "body-too-big":
            raise
        raise UnreadableFile(error.code, f"{error}: unpack it and add its folder") from error


def _read(path: PurePosixPath, packed: bytes, taken_bytes: int) -> bytes:
    most = settings.UNPACKED_LIMIT_BYTES
    try:
        content = unpack_bytes(packed, limit=most - taken_bytes)
    except UnreadableFile as error:
        if error.code != "body-too-big":
            raise
        detail = f"the files of one upload exceed {most // 2**20} MiB unpacked: upload this file separately"
        raise UnreadableFile(error.code, detail) from error
    if not content.strip() and not is_log(path.name, b""):
        raise UnreadableFile("body-empty", "the file is empty: fio may not have written any output")
    return content


def _take(
    host_id: int,
    path: PurePosixPath,
    output: bytes,
    *,
    parameters: FileParameters,
    file_name: str,
    logs: Mapping[str, bytes],
    is_preview: bool,
) -> FileResult:
    """Accept or preview one output. path: unique in the upload; file_name: its own, for the pattern and the table."""
    try:
        own = read_parameters(parameters.read(file_name).items())
        submission = make_submission(host_id, output, parameters=own, logs=logs)
    except UnknownFile as error:
        return _reject(path, "file-unknown", str(error))
    except BadLayout as error:
        return _reject(path, "parameter-invalid", f"{error.pointer.lstrip('/')}: {error}")
    except BadParameter as error:
        return _reject(path, error.code, str(error))
    except BadEnvelope as error:
        return _reject(path, error.code, str(error))
    if is_preview:
        return _preview(str(path), submission, log_count=len(logs))
    result = accept_submission(submission)
    if result.outcome == AcceptOutcome.CONFLICT:
        return FileResult(str(path), 409, "id-taken", f"submission {result.id} exists with a different body")
    return FileResult(
        str(path),
        _STATUSES[result.outcome],
        id=str(result.id),
        state=result.state.value,
        log_count=len(logs),
    )


def _preview(name: str, submission: IncomingSubmission, *, log_count: int) -> FileResult:
    if len(submission.body) > VALIDATED_BYTES_MAXIMUM:
        limit = VALIDATED_BYTES_MAXIMUM // 2**20
        # The preview is unavailable; nothing is known about the file.
        return FileResult(name, 503, detail=f"a preview reads at most {limit} MiB; the file can be uploaded")
    known = find_known(submission)
    found = preview_incoming(submission, known.id)
    if isinstance(found, Rejection):
        return _reject(name, found.code, found.reason)
    series, omitted = describe_preview(found)
    is_known = known.outcome == AcceptOutcome.REPLAYED
    return FileResult(
        name,
        200,
        id=str(known.id) if is_known else "",
        state="known" if is_known else "",
        log_count=log_count,
        series=series,
        omitted=omitted,
    )


def _reject(path: PurePosixPath | str, code: str, detail: str) -> FileResult:
    return FileResult(str(path), _FILE_STATUSES.get(code, 422), code, detail)


# Session key of the results, from the POST to the page that lists them.
_RESULTS: Final = "upload_results"


@never_cache
@require_http_methods(["GET", "POST"])
@needs_role(Role.EDITOR)
def upload_files(request: HttpRequest) -> HttpResponse:
    """Accept files in the same way as posted results; the script sends one output at a time and asks for JSON."""
    form = UploadFilesForm(request.POST or None, request.FILES or None, values=list_target_values())
    wants_json = request.headers.get("Accept", "").startswith("application/json")
    is_preview = request.POST.get("do") == "preview"
    results = (
        _take_files(form, is_preview=is_preview) if request.method == "POST" and form.is_valid() else None
    )
    if results and any(result.is_new for result in results):
        wake_up()
    if wants_json and request.method == "POST":
        return _answer_json(form, results)
    if results and not is_preview and (answer := _answer_page(request, form, results)) is not None:
        return answer
    hosts = Host.objects.active().order_by("name").values_list("name", flat=True)
    context = {
        "form": form,
        "hosts": hosts,
        "results": results
        if is_preview
        else [FileResult(**row) for row in request.session.pop(_RESULTS, [])],
        "is_preview": is_preview,
        "limits": {"body": settings.BODY_LIMIT_BYTES, "unpacked": settings.UNPACKED_LIMIT_BYTES},
    }
    return render(request, "intake/upload_files.html", context, status=400 if form.errors else 200)


def _take_files(form: UploadFilesForm, *, is_preview: bool) -> list[FileResult] | None:
    """Return the results of the form's files, or None with the errors in the form."""
    values = form.cleaned_data
    host = Host.objects.active().filter(name=follow_name("host", values["host"].strip().lower())).first()
    if host is None:
        form.add_error("host", "This host does not exist. An admin creates it on the Hosts page.")
        return None
    try:
        read_parameters(form.list_parameters())
    except BadParameter as error:
        form.add_error(error.parameter if error.parameter in form.fields else "layout", str(error))
        return None
    except BadLayout as error:
        name = error.pointer.lstrip("/")
        if name in form.fields:
            form.add_error(name, str(error))
        else:
            form.add_error("layout", f"{name}: {error}")
        return None
    parameters = FileParameters(
        dict(form.list_parameters()), values["name_pattern"], values["table"], values["folder"]
    )
    return take_files(host.pk, values["file"], parameters=parameters, is_preview=is_preview)


def _answer_json(form: UploadFilesForm, results: Sequence[FileResult] | None) -> HttpResponse:
    if results is None:
        faults = [f"{field}: {errors[0]}" for field, errors in form.errors.items()]
        return JsonResponse({"status": 400, "code": "form-invalid", "detail": " ".join(faults)}, status=400)
    return JsonResponse({"files": [result.as_row() for result in results]})


def _answer_page(
    request: HttpRequest, form: UploadFilesForm, results: Sequence[FileResult]
) -> HttpResponse | None:
    """Redirect to the upload, or to the list of results of several files; None if the form shows the error."""
    if len(results) > 1:
        request.session[_RESULTS] = [result.as_row() for result in results]
        return redirect("upload_files")
    only = results[0]
    if not only.is_accepted:
        form.add_error("file", f"{only.name}: {only.detail} ({only.code})")
        return None
    if only.is_new:
        messages.success(request, "Accepted. It is processed within seconds.", extra_tags="good")
    else:
        messages.info(request, "This file was already uploaded for this host.")
    return redirect("upload", submission_id=only.id)
