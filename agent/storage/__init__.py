"""What a directory lies on: filesystem, md, LVM, btrfs, ZFS, NFS, disks."""
