#!/usr/bin/env python3
"""A long call on a terminal prints its progress. Ctrl-C ends it between two slices, and leaves no
output file. Without a terminal no progress is printed.

   check_watch.py PROGRAM
"""
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile

ROWS, HEADS, SIZE = 8192, 4, 64
# With unoptimised kernels (driver.sh) the call would last half a minute.
OPTIMISED = {name: value for name, value in os.environ.items() if name != "POCL_EXTRA_BUILD_FLAGS"}


def write_zeros(path):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, %d, %d, %d), }" % (HEADS, ROWS, SIZE)
    header = header.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        file.truncate(file.tell() + 4 * HEADS * ROWS * SIZE)


def attend(program, folder, interrupt):
    """Returns the output on a terminal and the exit status. Sends Ctrl-C once some progress was
    printed."""
    terminal, its_side = pty.openpty()
    x, out = os.path.join(folder, "x.npy"), os.path.join(folder, "out.npy")
    run = subprocess.Popen([program, "attend", "--q", x, "--k", x, "--v", x, "--out", out, "--cache-dir", folder],
                           stdout=subprocess.DEVNULL, stderr=its_side, env=OPTIMISED)
    os.close(its_side)
    said = b""
    while select.select([terminal], [], [], 120)[0]:
        try:
            part = os.read(terminal, 1000)
        except OSError:  # the process closed its side
            break
        if not part:
            break
        said += part
        if interrupt and b"%" in said:
            run.send_signal(signal.SIGINT)
            interrupt = False
    os.close(terminal)
    return said.decode(), run.wait(), os.path.exists(out)


def main():
    # A shell that runs this in the background ignores SIGINT. Restore it, also for child processes.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        write_zeros(os.path.join(folder, "x.npy"))
        said, status, there = attend(program, folder, interrupt=True)
        assert status == -signal.SIGINT and "cancelled" in said and not there, (status, said, there)
        said, status, there = attend(program, folder, interrupt=False)
        assert status == 0 and "100 %" in said and there, (status, said, there)
        told = [int(x.split(" %")[0]) for x in said.split("attend: ")[1:]]
        assert len(told) > 2 and told == sorted(told), told


main()
