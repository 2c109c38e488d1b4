import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kb_local.broker import Broker
from kb_local.mongod import REPLICA_SET, Mongod, check_mongod, mongod_binary
from kb_local.monitoring import Monitoring, MonitoringOptions
from kb_local.ports import LOOPBACK, Ports
from kb_local.python_server import GatewayProcess, ModelServerProcess
from kb_local.search_nodes import SearchNodes
from kb_local.server import Server
from kb_local.service import Service
from kb_local.state import Home
from kb_local.upstreams import UPSTREAMS
from kb_local.wanted_services import ALL_SERVICES
from kb_local.zygote import Zygote
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.kafka_connection.connection import KafkaConnection

PRODUCERS: Final = frozenset({"kb_api", "kb_indexer", "kb_knowledge", "kb_reconciler"})
DEFAULT_DATABASE = "kb"

LOCAL_DEFAULTS: Final = {
    # No language model: it quotes what was found, and says so.
    "KB_CHAT_MODEL": "demo-extractive",
    "KB_EMBEDDING_MODEL": "all-MiniLM-L6-v2",
    "KB_DEFAULT_CHUNK_SIZE": "192",
    "KB_DEFAULT_CHUNK_OVERLAP": "20",
    # Of one person's machine, on which load is measured, too.
    "KB_SEARCHES_PER_MINUTE_OF_KEY": "1000000",
    "KB_SEARCHES_PER_MINUTE_OF_ORGANIZATION": "1000000",
    "KB_RUNS_PER_MINUTE_OF_KEY": "1000000",
    "KB_RUNS_PER_MINUTE_OF_ORGANIZATION": "1000000",
}
# All processes listen on the loopback address only, so who names an address has an account on this machine, and can
# reach what it reaches anyway. A model server or a wiki of one's own is the usual wish here.
PRIVATE_ADDRESSES: Final = {"KB_ALLOW_PRIVATE_ADDRESSES": "true"}
# Tansu refuses idempotent producers, makes a joining consumer wait for half a session, and gives up a group for good
# whose leader leaves while another member joins.
EMBEDDED_KAFKA: Final = {
    "KB_KAFKA_IDEMPOTENCE": "off",
    "KB_KAFKA_LEAVE_GROUP": "off",
    "KB_KAFKA_SESSION_TIMEOUT_MS": "4000",
    # The proxy before Tansu answers as soon as there are records, and early while some have come a moment ago.
    "KB_KAFKA_FETCH_MAX_WAIT_MS": "5000",
}


class Stack:
    """All processes of the system on this machine: servers, services, and the gateway in front.

    An asynchronous context manager: ready when entered, and with no process left when it is left. What exists already
    can be given instead of being launched: a MongoDB, a broker, a model server, a zygote. Nothing is restarted by
    itself: that is `Supervisor`'s.
    """

    def __init__(
        self,
        home: Path,
        *,
        services: Iterable[str] = ALL_SERVICES,
        env: Mapping[str, str] | None = None,
        env_of: Mapping[str, Mapping[str, str]] | None = None,
        lag_ms: int = 0,
        build_delay_ms: int = 0,
        mongo_uri: str | None = None,
        kafka: str | Broker | None = None,
        models_api_base: str | None = None,
        zygote: Zygote | None = None,
        database: str = DEFAULT_DATABASE,
        topic_prefix: str = "",
        ports: Ports | None = None,
        monitoring: MonitoringOptions | None = None,
    ) -> None:
        """Describe the stack.

        Args:
            home: folder of data, logs and secrets.
            services: packages; `kb_indexer:2` is a second process of `kb_indexer`.
            env: settings of all services, over those that the stack makes itself.
            env_of: settings of one service by its package, over all others.
            lag_ms: of each search node, where one is launched.
            build_delay_ms: likewise.
            mongo_uri: of a MongoDB that runs. Without Atlas search of its own a search node is put in front of each
                member.
            kafka: a Kafka cluster as `host:port`, or a broker of this package that runs.
            models_api_base: of an OpenAI-compatible server of the local models that runs.
            zygote: one that runs.
            database: of this stack's rows.
            topic_prefix: what the names of its topics and consumer groups begin with.
            ports: assigns the ports of the started servers.
            monitoring: of a Prometheus and an Alertmanager beside the services; None starts none.
        """
        self.home = Home(home)
        self.ports = ports or Ports()
        self.database = database
        self.topic_prefix = topic_prefix
        self.mongod: Mongod | None = None
        self.search_nodes: SearchNodes | None = None
        self.broker = kafka if isinstance(kafka, Broker) else None
        self.model_server: ModelServerProcess | None = None
        self.gateway: GatewayProcess | None = None
        self.monitoring: Monitoring | None = None
        self.services: dict[str, Service] = {}
        self._service_names = tuple(services)
        self._env = dict(env or {})
        self._env_of = dict(env_of or {})
        self._lag_ms = lag_ms
        self._build_delay_ms = build_delay_ms
        self._given_mongo_uri = mongo_uri
        self._given_kafka = kafka
        self._given_models_api_base = models_api_base
        self._monitoring_options = monitoring
        self._zygote = zygote
        self._owns_zygote = zygote is None
        self._mongo_uri = ""
        self._mongod_uri = ""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def base_url(self) -> str:
        """Return the one address of all HTTP services."""
        assert self.gateway is not None, "the stack has not been started"
        return self.gateway.url

    @property
    def mongo_uri(self) -> str:
        """Return the URI of MongoDB as the services see it, with Atlas search."""
        return self._mongo_uri

    @property
    def mongod_uri(self) -> str:
        """Return the URI of MongoDB without the search node in between; the same one if there is no search node."""
        return self._mongod_uri

    @property
    def kafka(self) -> str:
        """Return the bootstrap server."""
        if self.broker is not None:
            return self.broker.bootstrap
        assert isinstance(self._given_kafka, str), "the stack has not been started"
        return self._given_kafka

    @property
    def kafka_connection(self) -> KafkaConnection:
        """Return the bootstrap server and, for a cluster that was given, the security settings."""
        return KafkaConnection.from_environment({**self._env, "KB_KAFKA": self.kafka})

    @property
    def models_api_base(self) -> str:
        if self._given_models_api_base is not None:
            return self._given_models_api_base
        assert self.model_server is not None, "the stack has not been started"
        return self.model_server.api_base

    @property
    def environment(self) -> dict[str, str]:
        """Return the settings that every service gets."""
        secrets = self.home.read_secrets()
        return {
            **LOCAL_DEFAULTS,
            **({} if self._env.get("KB_ENVIRONMENT") == "production" else PRIVATE_ADDRESSES),
            **(EMBEDDED_KAFKA if self.broker is not None else {}),
            "KB_MONGO_URI": self.mongo_uri,
            "KB_MONGO_DATABASE": self.database,
            "KB_KAFKA": self.kafka,
            "KB_KAFKA_TOPIC_PREFIX": self.topic_prefix,
            "KB_LOCAL_MODELS_API_BASE": self.models_api_base,
            "KB_API_KEY_PEPPER": secrets.api_key_pepper,
            "KB_BOOTSTRAP_ADMIN_KEY": secrets.api_key,
            "KB_BOOTSTRAP_ORGANIZATION": secrets.organization_id,
            "KB_OPERATOR_ORGANIZATION": secrets.organization_id,
            "KB_PROVIDER_KEYS": secrets.provider_keys,
            **self._env,
        }

    def _environment_of(self, name: str) -> dict[str, str]:
        package = name.partition(":")[0]
        if package == "kb_console":
            # It calls the API as any other client does, and learns no address and no secret of the services.
            own = {
                "KB_BASE_URL": f"http://{LOOPBACK}:{self.ports.reserve('gateway')}",
                "KB_CONSOLE_SECRET": self.home.read_secrets().console_secret,
            }
            return {**own, **self._env, **self._env_of.get(package, {})}
        # Search calls these services to manage knowledge bases and entries over MCP.
        managing = {"KB_API_URL": self._url_of("kb_api"), "KB_KNOWLEDGE_URL": self._url_of("kb_knowledge")}
        own = managing if package == "kb_search" else {}
        return {**own, **self.environment, **self._env_of.get(package, {})}

    @property
    def api_key(self) -> str:
        """Return the first admin key of `organization_id`."""
        return self.environment["KB_BOOTSTRAP_ADMIN_KEY"]

    @property
    def organization_id(self) -> str:
        return self.environment["KB_BOOTSTRAP_ORGANIZATION"]

    @property
    def servers(self) -> list[Server]:
        """Return the servers that this stack has started and will stop, in the order of starting."""
        foundations: list[Server | None] = [
            self.mongod,
            *(self.search_nodes.nodes if self.search_nodes is not None else ()),
            None if isinstance(self._given_kafka, Broker) else self.broker,
            self.model_server,
            self._zygote if self._owns_zygote else None,
        ]
        return [
            *(server for server in foundations if server is not None),
            *self.services.values(),
            *([self.gateway] if self.gateway is not None else []),
            *(self.monitoring.servers if self.monitoring is not None else ()),
        ]

    async def start(self) -> None:
        """Start everything and return when all of it is ready; on an error nothing is left running.

        Raises:
            LocalStackError: with what to do about it.
        """
        self.home.prepare()
        try:
            await self._start_foundations()
            await self._fill_broker()
            self._make_services()
            await run_all_or_cancel([*(service.start() for service in self.services.values()), self._start_gateway()])
            await self._start_monitoring()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop everything in order: writers before the servers that they write to."""
        if self.monitoring is not None:
            # First, so that it does not record that the services are down.
            await self.monitoring.stop()
        if self.gateway is not None:
            await self.gateway.stop()
        await run_all_or_cancel(service.stop() for service in self.services.values())
        foundations = [server for server in self.servers if server is not self.mongod]
        await run_all_or_cancel(server.stop() for server in foundations)
        if self.mongod is not None:
            await self.mongod.stop()

    async def start_service(self, name: str, **env: str) -> Service:
        """Start one service, with further settings for this run only; `kb_indexer:2` may be new."""
        service = self.services.get(name) or self._make_service(name)
        if self.monitoring is not None:
            self.monitoring.write_targets(self.services.values())
        service.env = {**self._environment_of(name), **env}
        await service.start()
        return service

    async def stop_service(self, name: str) -> int:
        """Send SIGTERM to a service, wait for its end, and return its exit status."""
        return await self.services[name].stop()

    async def kill(self, name: str) -> None:
        """Send SIGKILL to a server or service by its name, such as `mongod` or `kb_indexer`."""
        await self.server(name).kill()

    def server(self, name: str) -> Server:
        """Return a server or service by its name, such as `mongod` or `kb_indexer`."""
        if name in self.services:
            return self.services[name]
        return next(server for server in self.servers if server.name == name)

    async def can_fork(self) -> bool:
        """Say whether services can be started at this moment."""
        return self._zygote is not None and await self._zygote.is_ready()

    async def restart_broker(self) -> None:
        """Kill the broker, restart it and send its messages again."""
        assert self.broker is not None, "this stack has not launched a broker"
        await self.broker.kill()
        await self.recover_broker()

    async def recover_broker(self) -> None:
        """Restart the broker, which is empty then, and send its messages again.

        Producers are stopped until the topics exist, because until then the new broker would acknowledge records and
        lose them.
        """
        assert self.broker is not None, "this stack has not launched a broker"
        producers = [service for service in self.services.values() if service.package in PRODUCERS and service.running]
        await run_all_or_cancel(service.stop() for service in producers)
        await self.broker.start()
        await self._fill_broker()
        await run_all_or_cancel(service.start() for service in producers)

    async def _fill_broker(self) -> None:
        # The clients of MongoDB and Kafka, which are imported while the servers and the zygote start.
        from kb_local.broker_contents import create_topics, resend_after_broker_loss

        await create_topics(self.kafka_connection, prefix=self.topic_prefix)
        # A broker of ours is empty whenever it starts.
        if self.broker is not None:
            await resend_after_broker_loss(self.mongo_uri, database=self.database)

    async def _start_foundations(self) -> None:
        if self._zygote is None:
            # Of services that are none of ours nothing is known to be worth importing before.
            ours = any(name.partition(":")[0] in ALL_SERVICES for name in self._service_names)
            self._zygote = Zygote(log=self.home.log("zygote"), preloaded=None if ours else ())
        if self._given_kafka is None:
            self.broker = Broker(port=self.ports.reserve("broker"), log=self.home.log("broker"))
        if self._given_models_api_base is None:
            self.model_server = ModelServerProcess(
                port=self.ports.reserve("model-server"), log=self.home.log("model-server")
            )
        await run_all_or_cancel(
            [
                self._start_mongo(),
                *([self.broker.start()] if self.broker is not None and self._given_kafka is None else []),
                *([self.model_server.start()] if self.model_server is not None else []),
                *([self._zygote.start()] if self._owns_zygote else []),
            ]
        )

    async def _start_mongo(self) -> None:
        if self._given_mongo_uri is None:
            await check_mongod(mongod_binary())
            self.mongod = Mongod(self.home.mongo, port=self.ports.reserve("mongod"), log=self.home.log("mongod"))
            await self.mongod.start()
            self._mongod_uri = self.mongod.uri
            members, set_name = [self.mongod.address], REPLICA_SET
        else:
            from kb_local.deployment import inspect_mongo

            given = await inspect_mongo(self._given_mongo_uri)
            self._mongod_uri = self._mongo_uri = given.uri
            if given.has_search:
                return
            members, set_name = [*given.members], given.set_name
        self.search_nodes = SearchNodes(
            members,
            set_name=set_name,
            logs=self.home.logs,
            ports=self.ports,
            lags_ms=(self._lag_ms,),
            build_delay_ms=self._build_delay_ms,
        )
        await self.search_nodes.start()
        self._mongo_uri = self.search_nodes.uri

    def _make_services(self) -> None:
        for name in self._service_names:
            self._make_service(name)

    def _make_service(self, name: str) -> Service:
        assert self._zygote is not None, "the stack has not been started"
        label = re.sub(r"[_.:]", "-", name)
        service = Service(
            label,
            name.partition(":")[0],
            zygote=self._zygote,
            port=self.ports.reserve(label),
            log=self.home.log(label),
            env=self._environment_of(name),
        )
        self.services[name] = service
        return service

    async def _start_gateway(self) -> None:
        self.gateway = GatewayProcess(
            {name: self._url_of(name.replace("-", "_")) for name in UPSTREAMS},
            port=self.ports.reserve("gateway"),
            log=self.home.log("gateway"),
            zygote=self._zygote,
        )
        await self.gateway.start()

    async def _start_monitoring(self) -> None:
        if self._monitoring_options is not None:
            self.monitoring = Monitoring(self._monitoring_options, home=self.home, ports=self.ports)
            self.monitoring.write_targets(self.services.values())
            await self.monitoring.start()

    def _url_of(self, name: str) -> str:
        """Return the URL of a service for others; nothing listens there if the service is not started."""
        if name in self.services:
            return self.services[name].url
        return f"http://127.0.0.1:{self.ports.reserve(name.replace('_', '-'))}"
