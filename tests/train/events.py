# SPDX-License-Identifier: Apache-2.0
"""Reading the TensorBoard files of runs."""

import os
import struct


def events(path):
    """The events of a TensorBoard file without their wall times, without those of time itself."""
    timed = (b"per_sec", b"_time", b"time_per")
    with open(path, "rb") as file:
        data = file.read()
    at, out = 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        message = data[at + 12:at + 12 + length]
        at += 16 + length
        if message[9:] and not any(word in message for word in timed):
            out.append(message[9:])  # field 1 is the wall time: a tag byte and a double
    return out


def only(folder):
    """The one file of a folder."""
    (name,) = os.listdir(folder)
    return os.path.join(folder, name)
