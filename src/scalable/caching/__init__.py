"""Results kept on disk: ``@cacheable``, the marks for paths whose content counts, and keys of values."""

from scalable.caching.content import DirType, FileType, ValueType
from scalable.caching.decorator import CachedFunction, CacheInfo, cacheable
from scalable.caching.errors import CacheWarning, CachingError, ContentError
from scalable.caching.keys import key_of

__all__ = [
    "CacheInfo",
    "CacheWarning",
    "CachedFunction",
    "CachingError",
    "ContentError",
    "DirType",
    "FileType",
    "ValueType",
    "cacheable",
    "key_of",
]
