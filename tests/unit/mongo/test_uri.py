import asyncio
import json
import os
import subprocess
import sys
from typing import Final

import pytest

from kb_local.deployment import inspect_mongo
from kb_local.errors import UnusableServer
from kb_shared.errors import Misconfigured
from kb_shared.mongo import database
from kb_shared.settings import CommonSettings

PASSWORD: Final = "s3cret"  # to be looked for in what is printed

REFUSED: Final = [
    ("readPreference=secondary", "readPreference"),
    ("readPreference=primaryPreferred", "readPreference"),
    ("READPREFERENCE=nearest", "readPreference"),
    ("readConcernLevel=majority", "readConcernLevel"),
    ("readConcernLevel=local", "readConcernLevel"),
    ("retryWrites=false", "retryWrites=false"),
    ("journal=false", "journal=false"),
    ("w=1", "w=majority"),
    ("w=0", "w=majority"),
    ("w=3", "w=majority"),
]
ACCEPTED: Final = [
    "replicaSet=rs0&authSource=admin",
    "authMechanism=MONGODB-X509&tls=true",
    "readPreference=primary&w=majority&retryWrites=true&journal=true",
    "wtimeoutMS=3000",
    "directConnection=true",
]


async def connect(uri: str) -> None:
    await database.connect(CommonSettings(mongo_uri=uri)).client.close()


@pytest.mark.parametrize(("options", "named"), REFUSED, ids=[options for options, _ in REFUSED])
@pytest.mark.parametrize("scheme", ["mongodb", "mongodb+srv"])
async def test_options_that_lose_writes_or_read_stale_data_are_refused(scheme: str, options: str, named: str) -> None:
    with pytest.raises(Misconfigured, match=named) as refused:
        await connect(f"{scheme}://user:{PASSWORD}@mongo.example.net/?appName=a&{options}")
    assert PASSWORD not in str(refused.value)


async def test_every_option_that_must_go_is_named_at_once() -> None:
    with pytest.raises(Misconfigured) as refused:
        await connect("mongodb://mongo/?retryWrites=false&w=1&readConcernLevel=local")
    assert all(name in str(refused.value) for name in ("retryWrites=false", "w=majority", "readConcernLevel"))


@pytest.mark.parametrize("options", ACCEPTED)
async def test_options_that_the_services_can_work_with_are_accepted(options: str) -> None:
    await connect(f"mongodb://mongo.example.net/?{options}")


@pytest.mark.parametrize(
    "uri",
    [
        f"mongodb://user:{PASSWORD}/@mongo",
        f"mongodb://user:12?{PASSWORD}=1@mongo",
        f"mongodb://user:12?w={PASSWORD}@mongo",
        f"http://user:{PASSWORD}@mongo",
        f"mongodb://user:{PASSWORD}@mongo/?tls=true&tlsCAFile=/nowhere",
        f"mongodb://user:{PASSWORD}@mongo/?retryWrites=no",
        f"mongodb://mongo/?tls=true&tlsCertificateKeyFile=/nowhere&tlsCertificateKeyFilePassword={PASSWORD}",
    ],
)
async def test_a_uri_that_cannot_be_read_is_refused_without_quoting_its_password(uri: str) -> None:
    with pytest.raises(Misconfigured, match="KB_MONGO_URI") as refused:
        await connect(uri)
    assert PASSWORD not in str(refused.value)
    assert refused.value.__cause__ is None


async def test_an_error_in_a_uri_without_a_password_is_explained() -> None:
    with pytest.raises(Misconfigured, match="Unknown option: readpreferense"):
        await connect("mongodb://mongo/?readPreferense=secondary")


async def test_the_local_stack_and_its_doctor_refuse_the_same() -> None:
    with pytest.raises(UnusableServer, match="readPreference"):
        await inspect_mongo("mongodb://mongo/?readPreference=secondary")
    with pytest.raises(UnusableServer) as refused:
        await inspect_mongo(f"mongodb://user:{PASSWORD}/@mongo")
    assert PASSWORD not in str(refused.value)


async def test_a_service_says_in_one_line_why_it_refuses_its_uri_and_exits_with_1() -> None:
    uri = f"mongodb://user:{PASSWORD}@mongo/?readPreference=secondary"
    service = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "kb_reconciler"],
        env={**os.environ, "KB_MONGO_URI": uri},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    [line] = service.stderr.splitlines()
    assert service.returncode == 1
    assert json.loads(line)["event"] == "process.misconfigured"
    assert "readPreference" in json.loads(line)["reason"]
    assert PASSWORD not in line + service.stdout
