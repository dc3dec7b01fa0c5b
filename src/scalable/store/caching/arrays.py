"""The canonical form of NumPy arrays and pandas tables: what they hold and how it is typed, not how it lies in memory.

It is imported when the first value of either library is met, so neither needs to be installed.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalable.store.caching.keys import Encoder

np: Any = import_module("numpy")  # an optional dependency, so its types may not be there to check against
PLAIN_KINDS = "biufcmMSUV"  # kinds of types whose values are the bytes of the array; others hold references
CHUNK = 1 << 24  # bytes of an array that is not contiguous that are copied at a time


def put_array(encoder: Encoder, value: Any) -> bool:
    """Write the value if it is one of theirs that has a form here."""
    if type(value) in (np.ndarray, np.memmap):
        encoder.out += b"A"
        put_ndarray(encoder, value)
    elif isinstance(value, np.generic) and is_plain(value.dtype):
        encoder.out += b"g"
        encoder.put(repr(value.dtype))
        encoder.put(value.tobytes())
    elif isinstance(value, np.dtype):
        encoder.out += b"D"
        encoder.put(repr(value))
    elif isinstance(value, np.ufunc):
        encoder.out += b"u"
        encoder.put(value.__name__)
    else:
        pandas = sys.modules.get("pandas")
        if pandas is None or not isinstance(value, pandas.DataFrame | pandas.Series | pandas.Index):
            return False
        encoder.out += b"p"
        encoder.put_name(type(value))
        if isinstance(value, pandas.Index):
            put_index(encoder, value)
        else:
            put_table(encoder, value)
    return True


def put_ndarray(encoder: Encoder, array: Any) -> None:
    encoder.put(repr(array.dtype))
    encoder.put(array.shape)
    if not is_plain(array.dtype):
        encoder.put(array.tolist())
        return
    digest = sha256()
    if array.flags.c_contiguous:
        digest.update(raw(array))
    elif array.size:
        rows = max(1, CHUNK * len(array) // array.nbytes)
        for start in range(0, len(array), rows):
            digest.update(raw(np.ascontiguousarray(array[start : start + rows])))
    encoder.out += digest.digest()


def put_table(encoder: Encoder, table: Any) -> None:
    """Put a frame as its columns, a series as one: equal tables may be divided into blocks differently."""
    encoder.put(table.index)
    encoder.put(table.attrs)
    if table.ndim == 1:
        encoder.put(table.name)
        put_column(encoder, table)
    else:
        encoder.put(table.columns)
        for number in range(table.shape[1]):
            put_column(encoder, table.iloc[:, number])


def put_index(encoder: Encoder, index: Any) -> None:
    encoder.put(list(index.names))
    encoder.put(getattr(index, "freqstr", None))
    if index.nlevels > 1:
        for level in range(index.nlevels):
            put_column(encoder, index.get_level_values(level))
    else:
        put_column(encoder, index)


def put_column(encoder: Encoder, column: Any) -> None:
    """Put the values of a series or index; what pandas keeps beside them, such as caches, is left out."""
    array, dtype = column.array, column.dtype
    if isinstance(dtype, np.dtype):
        encoder.put(column.to_numpy())
        return
    encoder.put(str(dtype))
    if hasattr(array, "codes"):
        encoder.put((dtype.ordered, dtype.categories, array.codes))
    elif hasattr(array, "asi8"):
        encoder.put(array.asi8)
    else:
        encoder.put(column.to_numpy(dtype=object))


def is_plain(dtype: Any) -> bool:
    return bool(dtype.kind in PLAIN_KINDS and not dtype.hasobject)


def raw(array: Any) -> Any:
    """Return the bytes of a contiguous array; types without a buffer format, such as dates, are viewed as bytes."""
    return array.reshape(-1).view(np.uint8).data if array.nbytes else b""
