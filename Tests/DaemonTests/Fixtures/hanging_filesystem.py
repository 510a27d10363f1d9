#!/usr/bin/env python3
"""A filesystem in memory that stops answering: hanging_filesystem.py MOUNTPOINT SWITCH

Speaks the kernel's FUSE protocol itself (linux/fuse.h, 7.31), so that it needs nothing but /dev/fuse and the right to
mount. While the file SWITCH exists no call is answered; those that came meanwhile are answered when it is gone. Prints
"mounted". Ends with the mount.
"""

import ctypes
import errno
import os
import struct
import sys
import time

MOUNTPOINT, SWITCH = sys.argv[1:3]
DIRECTORY, REGULAR = 0o040000, 0o100000


class Node:
    def __init__(self, mode):
        self.mode, self.data, self.links, self.names = mode, bytearray(), 1, {}


nodes = {1: Node(DIRECTORY | 0o700)}


def attributes(number):
    node = nodes[number]
    size = len(node.data)
    return struct.pack("<6Q10I", number, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, node.mode, node.links,
                       os.getuid(), os.getgid(), 0, 4096, 0)


def entry(number):
    return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + attributes(number)


def attributes_reply(number):
    return struct.pack("<QII", 0, 0, 0) + attributes(number)


def text(data):
    return bytes(data).split(b"\0", 1)[0]


class Refused(Exception):
    pass


def find(parent, name):
    number = nodes[parent].names.get(name)
    if number is None:
        raise Refused(errno.ENOENT)
    return number


def create(parent, data):
    flags, mode = struct.unpack_from("<II", data)
    number = len(nodes) + 1
    nodes[number] = Node(REGULAR | (mode & 0o777))
    nodes[parent].names[text(data[16:])] = number
    return entry(number) + struct.pack("<QII", number, 0, 0)


def change(number, data):
    valid, = struct.unpack_from("<I", data)
    size, = struct.unpack_from("<Q", data, 16)
    mode, = struct.unpack_from("<I", data, 68)
    node = nodes[number]
    if valid & 8:
        del node.data[size:]
        node.data.extend(bytes(size - len(node.data)))
    if valid & 1:
        node.mode = (node.mode & 0o170000) | (mode & 0o7777)
    return attributes_reply(number)


def write(number, data):
    _, offset, size = struct.unpack_from("<QQI", data)
    node = nodes[number]
    if len(node.data) < offset:
        node.data.extend(bytes(offset - len(node.data)))
    node.data[offset:offset + size] = data[40:40 + size]
    return struct.pack("<II", size, 0)


def read(number, data):
    _, offset, size = struct.unpack_from("<QQI", data)
    return bytes(nodes[number].data[offset:offset + size])


def link(parent, data):
    number, = struct.unpack_from("<Q", data)
    name = text(data[8:])
    if name in nodes[parent].names:
        raise Refused(errno.EEXIST)
    nodes[number].links += 1
    nodes[parent].names[name] = number
    return entry(number)


def unlink(parent, data):
    number = find(parent, text(data))
    nodes[number].links -= 1
    del nodes[parent].names[text(data)]
    return b""


def rename(parent, data, flags, names):
    target, = struct.unpack_from("<Q", data)
    old, new = bytes(names).split(b"\0")[:2]
    if flags & 1 and new in nodes[target].names:
        raise Refused(errno.EEXIST)
    nodes[target].names[new] = nodes[parent].names.pop(old)
    return b""


# No FLUSH: a process that has a file open on a filesystem that hangs in it cannot even be killed.
ANSWERS = {
    1: lambda node, data: entry(find(node, text(data))),
    3: lambda node, data: attributes_reply(node),
    4: change,
    10: unlink,
    12: lambda node, data: rename(node, data, 0, data[8:]),
    13: link,
    14: lambda node, data: struct.pack("<QII", node, 0, 0),
    15: read,
    16: write,
    17: lambda node, data: struct.pack("<5Q4I6I", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, 0,
                                       *[0] * 6),
    18: lambda node, data: b"",
    20: lambda node, data: b"",
    26: lambda node, data: struct.pack("<4I2H2I2HI7I", 7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, 0, 0, 0, *[0] * 7),
    27: lambda node, data: struct.pack("<QII", node, 0, 0),
    28: lambda node, data: b"",
    29: lambda node, data: b"",
    30: lambda node, data: b"",
    34: lambda node, data: b"",
    35: create,
    45: lambda node, data: rename(node, data, struct.unpack_from("<I", data, 8)[0], data[16:]),
}
UNANSWERED = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET


def main():
    device = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40700,user_id=%d,group_id=%d" % (device, os.getuid(), os.getgid())
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"ferry-test", os.fsencode(MOUNTPOINT), b"fuse.hanging", 0, options.encode()) != 0:
        sys.exit("mount: %s" % os.strerror(ctypes.get_errno()))
    print("mounted", flush=True)
    while True:
        try:
            request = os.read(device, (1 << 17) + 4096)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue
            return
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        while os.path.exists(SWITCH):
            time.sleep(0.01)
        if operation in UNANSWERED:
            continue
        code, answer = 0, b""
        try:
            answer = ANSWERS[operation](node, request[40:])
        except KeyError:
            code = -errno.ENOSYS
        except Refused as refusal:
            code = -refusal.args[0]
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(answer), code, unique) + answer)
        except OSError:
            pass  # The caller was interrupted meanwhile.


main()
