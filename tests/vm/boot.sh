#!/bin/sh
# Boot a small Debian in an emulated PC with four spare disks, and let prove.py try the agent on them; see README.md.
set -eu
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/sbin:/sbin
work=${VM_DIR:-var/vm} suite=bookworm
packages=linux-image-amd64,systemd-sysv,udev,cron,mdadm,lvm2,xfsprogs,btrfs-progs,e2fsprogs,fio,python3,procps

[ "$(id -u)" = 0 ] || { echo "debootstrap needs root: run it as root" >&2; exit 1; }
tools/apt-install --must qemu-system-x86_64:qemu-system-x86 debootstrap:debootstrap mke2fs:e2fsprogs
mkdir -p "$work"
if [ ! -e "$work/root.img" ]; then
    # Wherever this machine's own packages come from.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
    [ -n "$mirror" ] || { echo "no package source of this machine has Debian $suite" >&2; exit 1; }
    echo "building a Debian $suite"
    rm -rf "$work/root"
    debootstrap --variant=minbase --include="$packages" "$suite" "$work/root" "$mirror" >"$work/debootstrap.log"
    # A terminal would be hung up when the login prompt takes it: the report goes to a file on the share.
    cat >"$work/root/etc/systemd/system/prove.service" <<'UNIT'
[Unit]
After=cron.service
RequiresMountsFor=/mnt
[Service]
ExecStart=/usr/bin/python3 /mnt/prove.py
ExecStopPost=/usr/bin/systemctl poweroff
StandardOutput=append:/mnt/report
StandardError=inherit
[Install]
WantedBy=multi-user.target
UNIT
    chroot "$work/root" systemctl enable prove.service
    printf '%s\n' '/dev/vda / ext4 defaults 0 1' 'share /mnt 9p trans=virtio,version=9p2000.L 0 0' >"$work/root/etc/fstab"
    cp "$work"/root/boot/vmlinuz-* "$work/kernel"
    cp "$work"/root/boot/initrd.img-* "$work/initrd"
    mke2fs -q -t ext4 -d "$work/root" "$work/new.img" 3G
    mv "$work/new.img" "$work/root.img"
    rm -rf "$work/root"
fi
share=$work/share
rm -rf "$share"
mkdir "$share"
cp tests/vm/prove.py tests/agent/server.py "$share/"
.venv/bin/python -c 'import pathlib, sys; from benchapp.storage.agent_archive import build_agent_archive as build
pathlib.Path(sys.argv[1]).write_bytes(build(pathlib.Path("agent")))' "$share/bench-agent.pyz"
set --
for letter in b c d e; do
    rm -f "$work/vd$letter.img"
    truncate -s 400M "$work/vd$letter.img"
    set -- "$@" -drive "file=$work/vd$letter.img,if=virtio,format=raw,cache=unsafe"
done
timeout "${VM_TIMEOUT_S:-3600}" qemu-system-x86_64 -accel tcg -m 1536 -smp 1 -nodefaults -display none \
    -kernel "$work/kernel" -initrd "$work/initrd" -append 'root=/dev/vda rw console=ttyS0 quiet' \
    -drive "file=$work/root.img,if=virtio,format=raw,snapshot=on" "$@" -serial "file:$work/console" \
    -virtfs "local,path=$share,mount_tag=share,security_model=none" || true
cat "$share/report"
tail -n 1 "$share/report" | grep -qx 'all is proven'
