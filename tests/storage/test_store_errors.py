"""Whatever obstore or the system raises comes out as one of ours."""

import errno

import pytest
from obstore import exceptions as faults

from omnigraph.errors import BadRequest, OmniGraphError, StorageError
from omnigraph.storage.objects.store_errors import (
    AlreadyExists,
    ObjectChanged,
    ObjectNotFound,
    PermissionDenied,
    Unavailable,
    translate,
)

EXPECTED = {
    "AlreadyExistsError": AlreadyExists,
    "BaseError": Unavailable,
    "GenericError": Unavailable,
    "InvalidPathError": Unavailable,
    "JoinError": Unavailable,
    "NotFoundError": ObjectNotFound,
    "NotModifiedError": ObjectChanged,
    "NotSupportedError": Unavailable,
    "PermissionDeniedError": PermissionDenied,
    "PreconditionError": ObjectChanged,
    "UnauthenticatedError": PermissionDenied,
    "UnknownConfigurationKeyError": Unavailable,
}


def test_every_class_of_obstore_has_a_meaning_here():
    assert {name for name in dir(faults) if name.endswith("Error")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_obstore(name):
    error = getattr(faults, name)("Generic S3 error: it broke\n\nDebug source:\nGeneric {}")
    ours = translate(error, "read", "dir/object", "s3://bucket")
    assert type(ours) is EXPECTED[name]
    assert "dir/object" in str(ours)
    assert "Debug source" not in str(ours)


@pytest.mark.parametrize(
    ("number", "verb", "kind"),
    [
        (errno.ENOENT, "read", ObjectNotFound),
        (errno.ENOENT, "write", Unavailable),
        (errno.ENOENT, "claim", Unavailable),
        (errno.ENOTDIR, "read", ObjectNotFound),
        (errno.ENOTDIR, "write", AlreadyExists),
        (errno.EISDIR, "write", AlreadyExists),
        (errno.EEXIST, "claim", AlreadyExists),
        (errno.EACCES, "read", PermissionDenied),
        (errno.EPERM, "delete", PermissionDenied),
        (errno.EROFS, "write", PermissionDenied),
        (errno.ENOSPC, "write", Unavailable),
        (errno.EIO, "read", Unavailable),
        (errno.ETIMEDOUT, "write", Unavailable),
        (errno.ENAMETOOLONG, "write", BadRequest),
    ],
)
def test_the_system(number, verb, kind):
    raw = OSError(number, "text of the system", "path")
    wrapped = faults.GenericError(f"Unable to open file: text of the system (os error {number})")
    for error in (raw, wrapped):
        assert type(translate(error, verb, "object", "place")) is kind


def test_other_failures():
    for error in (ValueError("bad path"), NotImplementedError("no such mode"), RuntimeError("?")):
        assert type(translate(error, "read", "object", "place")) is Unavailable
    bucket = FileNotFoundError("not found: 404: <Code>NoSuchBucket</Code>")
    assert type(translate(bucket, "read", "object", "place")) is Unavailable


def test_the_kinds_are_storage_errors_with_its_code():
    kinds = (ObjectNotFound, AlreadyExists, ObjectChanged, PermissionDenied, Unavailable)
    for kind in kinds:
        assert issubclass(kind, StorageError)
        assert issubclass(kind, OmniGraphError)
        assert kind("text").body() == {
            "error": "runtime error: text",
            "code": "internal",
            "kind": "storage",
        }
