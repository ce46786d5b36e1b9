"""Verification of Ed25519 signatures: the arithmetic of RFC 8032, sections 5.1 and 6.

Only public values take part, so that its duration need not be constant. 5 ms for a signature.
"""

from __future__ import annotations

import hashlib
from typing import Optional, Tuple

KEY_BYTES = 32
SIGNATURE_BYTES = 64

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT_OF_MINUS_1 = pow(2, (_P - 1) // 4, _P)

# Extended homogeneous coordinates (X, Y, Z, T): x = X/Z, y = Y/Z, x·y = T/Z.
_Point = Tuple[int, int, int, int]


def is_valid_signature(public_key: bytes, content: bytes, signature: bytes) -> bool:
    """Return whether a signature of 64 bytes is that of the content by a public key of 32 bytes (RFC 8032, 5.1.7)."""
    if len(public_key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    key, point = _decode_point(public_key), _decode_point(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if key is None or point is None or scalar >= _ORDER:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + content).digest()
    challenge = int.from_bytes(digest, "little") % _ORDER
    return _are_equal(_multiply(scalar, _BASE), _add(point, _multiply(challenge, key)))


def is_valid_key(public_key: bytes) -> bool:
    """Return whether 32 bytes encode a point of the curve."""
    return len(public_key) == KEY_BYTES and _decode_point(public_key) is not None


def _add(first: _Point, second: _Point) -> _Point:
    a = (first[1] - first[0]) * (second[1] - second[0]) % _P
    b = (first[1] + first[0]) * (second[1] + second[0]) % _P
    c = 2 * first[3] * second[3] * _D % _P
    d = 2 * first[2] * second[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _multiply(scalar: int, point: _Point) -> _Point:
    result: _Point = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            result = _add(result, point)
        point = _add(point, point)
        scalar >>= 1
    return result


def _are_equal(first: _Point, second: _Point) -> bool:
    is_x_equal = (first[0] * second[2] - second[0] * first[2]) % _P == 0
    return is_x_equal and (first[1] * second[2] - second[1] * first[2]) % _P == 0


def _decode_point(encoded: bytes) -> Optional[_Point]:
    """Return the point of 32 bytes; None if they encode none (RFC 8032, 5.1.3)."""
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    x = _recover_x(y, sign)
    return None if x is None else (x, y, 1, x * y % _P)


def _recover_x(y: int, sign: int) -> Optional[int]:
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    if square == 0:
        return None if sign else 0
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT_OF_MINUS_1 % _P
    if (x * x - square) % _P:
        return None
    return _P - x if x & 1 != sign else x


_BASE_Y = 4 * pow(5, _P - 2, _P) % _P
_BASE_X = _recover_x(_BASE_Y, 0)
assert _BASE_X is not None  # a constant of the curve
_BASE: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)
