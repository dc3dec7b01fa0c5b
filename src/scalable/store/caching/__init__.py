"""Results kept on disk: ``@cacheable``, the marks for paths whose content counts, and keys of values."""

from scalable.store.caching.cache import CacheWarning
from scalable.store.caching.content import ContentError, DirType, FileType, ValueType
from scalable.store.caching.decorator import CachedFunction, CacheInfo, cacheable
from scalable.store.caching.keys import CachingError, key_of

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
