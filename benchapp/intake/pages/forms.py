"""The form of uploads: files, and the layout that they were measured on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from django import forms

from benchapp.intake.importing.file_parameters import (
    PATTERN_LENGTH,
    BadFileParameters,
    NamePattern,
    read_name_pattern,
    read_parameter_table,
)

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
        help_text="JSON, JSON+, terse or text, optionally compressed with gzip. "
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
