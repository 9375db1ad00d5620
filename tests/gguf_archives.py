"""GGUF files written by hand: for readers that must not trust them."""

import struct


def text(word):
    content = word.encode()
    return struct.pack("<Q", len(content)) + content


def field(name, kind, content):
    """An entry of the header: its name, type and content."""
    return text(name) + struct.pack("<I", kind) + content


def write_gguf(path, tensors, fields=(), *, overlapping=False):
    """Write a file; tensors are given as shape, type and bytes."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)) + b"".join(fields)
    data = b""
    for name, (shape, kind, content) in tensors.items():
        at = 0 if overlapping else len(data)
        header += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        header += struct.pack("<IQ", kind, at)
        data = content if overlapping else data + content + bytes(-len(content) % 32)
    path.write_bytes(header + bytes(-len(header) % 32) + data)
