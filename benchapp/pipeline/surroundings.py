"""What all measurements of one run share: its jobs, and what the sender said of the host and its storage.

Facts of the environment that are read here, as the agent or any other sender writes them:
- `md`: {`degraded`: number of members missing, `sync_action`: "idle" or what the array is doing}, of mdadm
- `raid_state`: what btrfs, ZFS or a hardware controller says of its array: "optimal", or one of RAID_TROUBLES
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from benchapp.fio.report import Document, Job


def _split(names: str) -> tuple[str, ...]:
    return tuple(names.split())


# What the kernel's md writes while an array is not at rest; "idle" and "frozen" are at rest.
_SYNC_ACTIONS: Final = frozenset({"resync", "recover", "reshape", "check", "repair"})
RAID_TROUBLES: Final = frozenset(
    {"degraded", "partially degraded", "rebuilding", "recovering"}
    | {"resyncing", "reshaping", "failed", "offline"}
)
_NETWORK_FILESYSTEMS: Final = frozenset(
    _split(
        "nfs nfs4 cifs smb3 9p virtiofs ceph glusterfs lustre gpfs beegfs afs gfs2 ocfs2"
        " fuse.glusterfs fuse.sshfs fuse.s3fs fuse.ceph fuse.juicefs fuse.mfs"
    )
)
_MEMORY_FILESYSTEMS: Final = frozenset({"tmpfs", "ramfs"})
# How the names of volumes begin that are reached over a network, as clouds and storage people name them.
_NETWORK_VOLUMES: Final = _split(
    "gp2 gp3 io1 io2 st1 sc1 ebs pd- hyperdisk premium_ premiumv2 standard_ standardssd ultrassd"
    " nfs efs iscsi rbd ceph cinder longhorn nvme-of nvmeof"
)
_MEMORY_VOLUMES: Final = _split("pmem ram nvdimm tmpfs")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all measurements of one run share.

    jobs: by their index in the document. has_precise_values: False where the format rounds.
    """

    format: str
    has_precise_values: bool
    jobs: Mapping[int, Job]
    memory_bytes: int | None
    storage: Literal["network", "memory"] | None
    members_missing: int | None
    sync_action: str
    raid_state: str


def read_surroundings(
    document: Document, *, environment: Mapping[str, Any], target: Mapping[str, Any]
) -> Surroundings:
    """Return what all measurements of a run share; environment and target as `layout` reads them."""
    facts = environment.get("facts") or {}
    md = facts["md"] if isinstance(facts.get("md"), Mapping) else {}
    missing, action = str(md.get("degraded") or ""), str(md.get("sync_action") or "").lower()
    state = str(facts.get("raid_state") or "").strip().lower()
    return Surroundings(
        format=document.format,
        has_precise_values=document.has_precise_values,
        jobs={job.index: job for job in document.jobs},
        memory_bytes=environment.get("memory_bytes"),
        storage=_find_storage(environment, target),
        members_missing=int(missing)
        if missing.isascii() and missing.isdigit() and len(missing) < 6
        else None,
        sync_action=action if action in _SYNC_ACTIONS else "",
        raid_state=state if state in RAID_TROUBLES else "",
    )


def _find_storage(
    environment: Mapping[str, Any], target: Mapping[str, Any]
) -> Literal["network", "memory"] | None:
    filesystem = (target.get("filesystem") or "").lower()
    volume = (target.get("volume_type") or "").lower()
    mount_options = (target.get("mount_options") or "").lower().split(",")
    if filesystem in _MEMORY_FILESYSTEMS or volume.startswith(_MEMORY_VOLUMES) or "dax" in mount_options:
        return "memory"
    is_block_store = "elastic block store" in (environment.get("device_model") or "").lower()
    if is_block_store or filesystem in _NETWORK_FILESYSTEMS or volume.startswith(_NETWORK_VOLUMES):
        return "network"
    return None
