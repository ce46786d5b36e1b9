"""Small text reports for tests: a complete report around given lines."""

from benchapp.fio.report import Direction, Document, Job, Notes, Reading
from benchapp.fio.text_report.reader import read_normal
from benchapp.fio.wrappers import separate_streams
from tests.fio.outputs import read_bytes

HEADER = "job: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=1"
SUMMARY = "  write: IOPS=1999, BW=7999KiB/s (8191kB/s)(469MiB/60001msec); 0 zone resets"
ISSUED = "     issued rwts: total=0,119984,0,0 short=0,0,0,0 dropped=0,0,0,0"
JOB_LINE = "job: (groupid=0, jobs=1): err= 0: pid=1891: Wed Dec 21 14:56:37 2022"
OLD_HEADER = "job: (g=0): rw=randrw, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=64"
END = "Run status group 0 (all jobs):"

# Written for tests in the layout of two versions, with values that agree with each other: without latencies, as of
# gtod_reduce=1, and with every line of a job that only writes.
WHOLE_2_2_10 = """\
mixed: (g=0): rw=randrw, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=32
fio-2.2.10
Starting 1 process
mixed: Laying out IO file(s) (1 file(s) / 768MB)
Jobs: 1 (f=1): [m(1)] [100.0% done] [106.3MB/36340KB/0KB /s] [27.3K/9085/0 iops] [eta 00m:00s]
mixed: (groupid=0, jobs=1): err= 0: pid=4242: Tue Mar  5 09:30:00 2024
  read : io=589564KB, bw=108835KB/s, iops=27208, runt=  5417msec
  write: io=196828KB, bw=36335KB/s, iops=9083, runt=  5417msec
  cpu          : usr=5.81%, sys=19.47%, ctx=180233, majf=0, minf=7
  IO depths    : 1=0.1%, 2=0.1%, 4=0.1%, 8=0.1%, 16=0.1%, 32=100.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     complete  : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.1%, 64=0.0%, >=64=0.0%
     issued    : total=r=147391/w=49207/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0
     latency   : target=0, window=0, percentile=100.00%, depth=32

Run status group 0 (all jobs):
   READ: io=589564KB, aggrb=108835KB/s, minb=108835KB/s, maxb=108835KB/s, mint=5417msec, maxt=5417msec
  WRITE: io=196828KB, aggrb=36335KB/s, minb=36335KB/s, maxb=36335KB/s, mint=5417msec, maxt=5417msec
"""
WHOLE_3_28 = """\
single: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=1
fio-3.28
Starting 1 process
single: Laying out IO file (1 file / 2048MiB)
Jobs: 1 (f=1): [w(1)][100.0%][w=9520KiB/s][w=2380 IOPS][eta 00m:00s]
single: (groupid=0, jobs=1): err= 0: pid=4243: Tue Mar  5 09:31:00 2024
  write: IOPS=2373, BW=9493KiB/s (9721kB/s)(278MiB/30004msec); 0 zone resets
    slat (usec): min=3, max=392, avg=10.87, stdev= 4.92
    clat (usec): min=320, max=24398, avg=407.59, stdev=82.66
     lat (usec): min=331, max=24417, avg=418.64, stdev=83.17
    clat percentiles (usec):
     |  1.00th=[  343],  5.00th=[  359], 10.00th=[  367], 20.00th=[  379],
     | 30.00th=[  388], 40.00th=[  396], 50.00th=[  404], 60.00th=[  412],
     | 70.00th=[  420], 80.00th=[  433], 90.00th=[  449], 95.00th=[  469],
     | 99.00th=[  529], 99.50th=[  570], 99.90th=[  717], 99.95th=[  783],
     | 99.99th=[ 1037]
   bw (  KiB/s): min= 8800, max= 9840, per=100.00%, avg=9496.28, stdev=144.73, samples=60
   iops        : min= 2200, max= 2460, avg=2374.07, stdev=36.18, samples=60
  lat (usec)   : 500=97.13%, 750=2.79%, 1000=0.06%
  lat (msec)   : 2=0.01%, 50=0.01%
  cpu          : usr=2.31%, sys=3.64%, ctx=71554, majf=0, minf=54
  IO depths    : 1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     complete  : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     issued rwts: total=0,71209,0,0 short=0,0,0,0 dropped=0,0,0,0
     latency   : target=0, window=0, percentile=100.00%, depth=1

Run status group 0 (all jobs):
  WRITE: bw=9493KiB/s (9721kB/s), 9493KiB/s-9493KiB/s (9721kB/s-9721kB/s), io=278MiB (292MB), run=30004-30004msec
"""


def make_text(
    *lines: str, header: str = HEADER, version: str = "fio-3.28", job: str = JOB_LINE, issued: str = ISSUED
) -> str:
    """Return a report of one job with these lines in its block."""
    head = [header, version, "Starting 1 process", ""] if header else []
    return "\n".join([*head, job, *lines, issued, "", END, ""])


def make_old_text(*lines: str, issued: str, version: str = "fio-2.2.10", header: str = OLD_HEADER) -> str:
    return make_text(*lines, header=header, version=version, issued=f"     issued    : {issued}")


def read_text(text: str) -> Reading:
    (stream,) = separate_streams(text)
    return read_normal(stream.text, Notes())


def read_document(text: str) -> Document:
    (found,) = read_text(text).documents
    return found


def read_job(text: str) -> Job:
    return read_document(text).jobs[0]


def read_direction(text: str) -> Direction:
    return read_job(text).directions[0]


def read_file(name: str) -> Document:
    return read_document(read_bytes(name).decode())


def list_codes(text: str) -> list[str]:
    """Return the codes of all notes except the one that every text has."""
    notes = Notes()
    read_normal(text, notes)
    return [note.code for note in notes.list_all() if note.code != "text-precision"]
