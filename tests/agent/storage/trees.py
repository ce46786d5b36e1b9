"""Trees of /proc and /sys, according to the kernel's documentation and real machines."""

from __future__ import annotations

from pathlib import Path

ROOT_MOUNT = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"


def write_tree(root: Path, files: dict[str, str], links: dict[str, str] | None = None) -> str:
    """Write files, and links with targets below root; return root as text."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, aim in (links or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(root / aim)
    return str(root)


def disk(name: str, number: str, *, gib: int = 100, **files: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return files and links of one disk; keyword names are paths below it with __ for a slash."""
    base = f"sys/devices/virtual/block/{name}"
    contents = {f"{base}/size": f"{gib * 2**21}\n", f"{base}/queue/scheduler": "[none] mq-deadline\n"}
    contents.update({f"{base}/{path.replace('__', '/')}": text for path, text in files.items()})
    return contents, {f"sys/dev/block/{number}": base, f"sys/class/block/{name}": base}


def join(*parts: tuple[dict[str, str], dict[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    for some_files, some_links in parts:
        files.update(some_files)
        links.update(some_links)
    return files, links


def slaves(upper: str, *lower: str) -> dict[str, str]:
    base = "sys/devices/virtual/block"
    return {f"{base}/{upper}/slaves/{name.rpartition('/')[2]}": f"{base}/{name}" for name in lower}


def nvme(index: int, *, firmware: str = "2.0") -> tuple[dict[str, str], dict[str, str]]:
    return disk(
        f"nvme{index}n1",
        f"259:{index}",
        gib=500,
        device__model="Amazon Elastic Block Store              \n",
        device__firmware_rev=f"{firmware}\n",
    )


def raid0(count: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return md0 of this number of NVMe volumes, mounted at /data as XFS."""
    members = [nvme(index) for index in range(count)]
    array = disk(
        "md0",
        "9:0",
        gib=500 * count,
        md__level="raid0\n",
        md__raid_disks=f"{count}\n",
        md__chunk_size="262144\n",
        md__array_state="clean\n",
    )
    files, links = join(array, *members)
    links.update(slaves("md0", *(f"nvme{index}n1" for index in range(count))))
    files["proc/self/mountinfo"] = (
        ROOT_MOUNT
        + "40 27 9:0 / /data rw,noatime shared:12 - xfs /dev/md0 rw,attr2,inode64,sunit=512,swidth=2048\n"
    )
    return files, links
