"""What a Python instance-group plugin imports: a program that makes, lists and deletes the machines of one cloud for a Rung fleet. docs/plugins.md is the manual.

    class Mine(rung_instancegroup.Cloud):
        name = "mine"

    rung_instancegroup.serve(Mine())

It needs grpcio and protobuf for Python, and the program openssl. Requests that are repeated, owners, several machines at once, credentials, addresses and readiness
are done: a subclass lists, creates and deletes machines. It mirrors MainCloud of sdk/instancegroup in Go.
"""

import base64
import concurrent.futures
import dataclasses
import ipaddress
import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading

import rung_plugin
from rung.fleet.v1 import fleet_pb2 as pb
from rung_plugin import log

OWNER, REQUEST, NUMBER = "rung-owner", "rung-request", "rung-number"  # labels
KEY = "key"  # the record of a generated key, as in the SDK for Go
AT_ONCE = 8  # machines that are made or deleted at the same time
MAX_ASKED = 1000  # requests that are remembered: others are found by their labels
PAGE = 500  # instances in a message
PRIVATE = [ipaddress.ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")]
STATES = {"creating": pb.STATE_CREATING, "running": pb.STATE_RUNNING, "suspending": pb.STATE_SUSPENDING, "suspended": pb.STATE_SUSPENDED,
          "timeout": pb.STATE_TIMEOUT, "failed": pb.STATE_FAILED, "deleting": pb.STATE_DELETING, "deleted": pb.STATE_DELETED}


class Error(rung_plugin.Error):
    """Why a call fails. Other exceptions are internal errors. option is a JSON pointer to the option that is wrong, in open: "/hosts/one"."""

    def __init__(self, message, code=pb.CODE_INTERNAL, after=0, option=""):
        super().__init__(message)
        self.code, self.after, self.option = code, after, option


def quota(message, after=0):
    """The cloud gives no more now: another pool may have some."""
    return Error(message, pb.CODE_QUOTA, after)


def not_found(message):
    """There is no such machine or shape."""
    return Error(message, pb.CODE_NOT_FOUND)


def unauthorised(message):
    """The cloud refuses the credentials: it will not work by trying again."""
    return Error(message, pb.CODE_UNAUTHORISED)


def transient(message, after=0):
    """It may work later: after so many seconds, if that is not 0."""
    return Error(message, pb.CODE_TRANSIENT, after)


def unhealthy(message):
    """The machine must get no more jobs: of heartbeat."""
    return Error(message, pb.CODE_UNHEALTHY)


def wrong_option(pointer, message):
    """An option is wrong: of open. Who wrote the configuration is shown the line."""
    return Error(message, option=pointer)


def describe(error):
    """An exception as a message."""
    if isinstance(error, Error):
        out = pb.Error(code=error.code, message=str(error), option=error.option)
        if error.after:
            out.after.FromMilliseconds(int(error.after * 1000))
        return out
    return pb.Error(code=pb.CODE_INTERNAL, message=str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}")


@dataclasses.dataclass
class Machine:
    """One machine of a cloud. Its labels must be those of its order."""

    id: str
    state: str = "running"  # one of STATES
    labels: dict = dataclasses.field(default_factory=dict)
    addresses: list = dataclasses.field(default_factory=list)  # all that it has; those with a port are used as they are, for want of others
    probe: str = ""  # host:port at which somebody must answer before it counts as running; empty: it does as the cloud says
    host_keys: list = dataclasses.field(default_factory=list)  # "SHA256:...", if they are known
    reason: str = ""  # of a failure
    shape: str = ""
    zone: str = ""
    spot: bool = False


@dataclasses.dataclass
class Order:
    """One machine that is asked for. name is the same when the request is repeated, and no other machine's; labels must be on the machine."""

    name: str
    labels: dict
    shape: str
    zone: str
    spot: bool
    public_key: str  # the line for authorized_keys; empty where the credentials have no key


class Cloud:
    """What a subclass says of a cloud. Its methods are called from many threads. It may also have offers() with a list of Offer messages of fleet.proto, and
    heartbeat(id), which raises unhealthy(why), or transient(why) if the cloud does not answer: an exception without a kind means that the machine is unhealthy;
    suspend(ids) and resume(ids), which return the ids that were asked for; and shutdown()."""

    name = version = ""
    schema = None  # JSON schema of the options; None leaves checking them to open

    def open(self, settings, options):
        """Called first, once: with an OpenRequest of fleet.proto, and the options. It returns a name for the group among all groups of all clouds, and how many
        machines it can have."""
        raise NotImplementedError

    def machines(self):
        """The Machines that there are. Those without the owner's label are left alone."""
        raise NotImplementedError

    def create(self, order):
        """Asks for one machine, returns its id, and does not wait until it runs."""
        raise NotImplementedError

    def delete(self, id):
        """Asks for one machine to be deleted. That there is none is no error."""
        raise NotImplementedError


def load(settings, name, otherwise):
    """What save has kept under a name, from processes before too."""
    file = pathlib.Path(settings.state, name + ".json")
    return json.loads(file.read_text()) if settings.state and file.exists() else otherwise


def save(settings, name, value):
    """Keeps a value in the group's folder on the runner's machine."""
    if settings.state:
        file = pathlib.Path(settings.state, name + ".json")
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.touch(0o600)
        new.write_text(json.dumps(value))
        new.replace(file)


def sized(data):
    return len(data).to_bytes(4, "big") + data


def generated():
    """A new key, and the line for authorized_keys."""
    key = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519"], check=True, capture_output=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubout", "-outform", "DER"], input=key, check=True, capture_output=True).stdout
    return key, "ssh-ed25519 " + base64.b64encode(sized(b"ssh-ed25519") + sized(der[-32:])).decode()


def public_of(key):
    """The line for authorized_keys of a private key. OpenSSH's own format has it in clear; for others, ssh-keygen is asked."""
    lines = key.decode(errors="replace").strip().splitlines()
    try:
        if lines and "OPENSSH PRIVATE KEY" in lines[0]:
            data = base64.b64decode("".join(lines[1:-1]))[len("openssh-key-v1\0"):]
            for skipped in range(3):  # cipher, kdf, its options
                data = data[4 + int.from_bytes(data[:4], "big"):]
            blob = data[8:8 + int.from_bytes(data[4:8], "big")]
            kind = blob[4:4 + int.from_bytes(blob[:4], "big")].decode()
            return kind + " " + base64.b64encode(blob).decode()
        if not shutil.which("ssh-keygen"):
            raise Error("the key in key_path of connector_config is not in OpenSSH's format, and there is no ssh-keygen to read it")
        asked = subprocess.run(["ssh-keygen", "-y", "-P", "", "-f", "/dev/stdin"], input=key, check=True, capture_output=True)
        return asked.stdout.decode().strip()
    except (ValueError, subprocess.CalledProcessError):
        raise Error("the key in key_path of connector_config is not a private key without a password")


def kept_key(settings):
    """The key that an earlier process has made, as its machines know no other one, or a new one, and the line for authorized_keys."""
    try:
        kept = load(settings, KEY, {})
        return kept["private"].encode(), kept["public"]
    except (KeyError, TypeError, AttributeError, ValueError):  # there is none, or it is damaged
        key, public = generated()
        save(settings, KEY, {"private": key.decode(), "public": public})
        return key, public


def credentials(settings):
    """What machines are reached with, as the configuration says, and the line for authorized_keys: a static password or key, a given key, or one that is made."""
    out, connector = pb.Connector(), settings.connector
    out.CopyFrom(connector)
    if connector.use_static_credentials and not connector.key:
        if not connector.password:
            raise Error("use_static_credentials needs a password, or a key in key_path, in connector_config")
        return out, ""
    if connector.key:
        return out, public_of(connector.key)
    out.key, public = kept_key(settings)
    return out, public


def addresses(every):
    """The internal and the external one among the addresses of a machine, IPv4 first."""
    internal = external = ""
    for version in (4, 6):
        for text in every:
            try:
                address = ipaddress.ip_address(text)
            except ValueError:
                continue
            if address.version != version or address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
                continue
            if any(address in network for network in PRIVATE):
                internal = internal or text
            else:
                external = external or text
    if not internal and not external and every:
        internal = every[0]
    return internal, external


class Asked:
    """What this process has made for a request: lists may not have it yet."""

    def __init__(self):
        self.turn, self.numbers = threading.Lock(), {}


class Service:
    """The calls of fleet.proto. A stream of responses is a generator."""

    def __init__(self, cloud):
        self.cloud, self.opened, self.open, self.closed = cloud, False, False, False
        self.lock, self.asked, self.ready = threading.Lock(), {}, set()
        self.workers = concurrent.futures.ThreadPoolExecutor(AT_ONCE)

    def together(self, do, what):
        """Does something with each of a list, several at once. Returns what worked with its result, and the first error."""
        done, failed = [], None
        for one, future in [(one, self.workers.submit(do, one)) for one in what]:
            try:
                done.append((one, future.result()))
            except Exception as error:
                if not isinstance(error, Error):
                    log(f"{type(error).__name__}: {error}", "warn")
                failed = failed or error
        return done, failed

    def Describe(self, request, context):
        return pb.DescribeResponse(name=self.cloud.name, version=self.cloud.version, options_schema=json.dumps(self.cloud.schema) if self.cloud.schema else "")

    def Open(self, request, context):
        with self.lock:
            if self.opened:
                raise Error("the plugin is open already")
            self.opened = True
        self.owner = request.owner
        self.connector, self.public_key = credentials(request)
        id, size = self.cloud.open(request, json.loads(request.options or "{}"))
        can = [pb.ABILITY_DETAILS, pb.ABILITY_REQUESTS]
        for name, ability in (("offers", pb.ABILITY_OFFERS), ("heartbeat", pb.ABILITY_HEARTBEAT), ("suspend", pb.ABILITY_SUSPEND)):
            if hasattr(self.cloud, name):
                can.append(ability)
        ended = threading.Event()
        context.add_callback(ended.set)
        self.open = True
        yield pb.OpenResponse(id=id, max_size=size, version=self.cloud.version or "dev", abilities=can)
        ended.wait()
        if not self.closed:
            self.end()
            os._exit(1)  # the runner is dead

    def owned(self):
        if not self.open or self.closed:
            raise Error("the plugin is not open")
        return [m for m in self.cloud.machines() if m.labels.get(OWNER, "") == self.owner]

    def state(self, m):
        """What to report of a machine: one that runs counts once somebody has answered at its probe."""
        if m.state != "running" or not m.probe or m.id in self.ready:
            return STATES.get(m.state, pb.STATE_CREATING)
        host, _, port = m.probe.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), 2).close()
        except OSError:
            return pb.STATE_CREATING
        self.ready.add(m.id)
        return pb.STATE_RUNNING

    def List(self, request, context):
        every = self.owned()
        states, failed = self.together(self.state, every)
        if failed:
            raise failed
        out = [pb.Instance(id=m.id, state=state, reason=m.reason, shape=m.shape, zone=m.zone, spot=m.spot, labels=m.labels, request=m.labels.get(REQUEST, ""))
               for m, state in states]
        for start in range(0, len(out), PAGE):
            yield pb.ListResponse(instances=out[start:start + PAGE])

    def request(self, id):
        with self.lock:
            if id not in self.asked:
                while len(self.asked) >= MAX_ASKED:
                    del self.asked[next(iter(self.asked))]
                self.asked[id] = Asked()
            return self.asked[id]

    def Increase(self, request, context):
        if not request.request:
            raise Error("machines are made for requests", pb.CODE_UNSUPPORTED)
        asked = self.request(request.request)
        with asked.turn:
            known = asked.numbers
            for m in self.owned():
                if m.labels.get(REQUEST) == request.request:
                    known[m.id] = m.labels.get(NUMBER, "")
            used, lacking, n = set(known.values()), [], 1
            while len(lacking) < request.count - len(known):
                if str(n) not in used:
                    lacking.append(str(n))
                n += 1
            made, failed = self.together(lambda number: self.cloud.create(self.order(request, number)), lacking)
            known.update({id: number for number, id in made})
            ids = sorted(known)
        return pb.IncreaseResponse(count=len(ids), instances=ids, error=describe(failed) if failed else None)

    def order(self, r, number):
        return Order(f"{r.request}-{number}", {**r.labels, NUMBER: number}, r.shape, r.zone, r.spot, self.public_key)

    def Decrease(self, request, context):
        def delete(id):
            try:
                self.cloud.delete(id)
            except Error as error:
                if error.code != pb.CODE_NOT_FOUND:
                    raise
            self.ready.discard(id)

        done, failed = self.together(delete, request.instances)
        return pb.DecreaseResponse(succeeded=[id for id, _ in done], error=describe(failed) if failed else None)

    def ConnectInfo(self, request, context):
        for m in self.owned():
            if m.id == request.instance:
                internal, external = addresses(m.addresses)
                if not internal and not external:
                    raise transient(f"the machine {m.id} has no address yet")
                return pb.ConnectInfoResponse(id=m.id, connector=self.connector, internal_addr=internal, external_addr=external, host_keys=m.host_keys)
        raise not_found(f"there is no machine {request.instance}")

    def optional(self, name):
        if not hasattr(self.cloud, name):
            raise Error("the plugin does not do that", pb.CODE_UNSUPPORTED)
        return getattr(self.cloud, name)

    def Offers(self, request, context):
        return pb.OffersResponse(offers=self.optional("offers")())

    def Heartbeat(self, request, context):
        self.optional("heartbeat")(request.instance)
        return pb.HeartbeatResponse()

    def Suspend(self, request, context):
        return pb.SuspendResponse(succeeded=self.optional("suspend")(list(request.instances)))

    def Resume(self, request, context):
        return pb.ResumeResponse(succeeded=self.optional("resume")(list(request.instances)))

    def end(self):
        self.closed = True
        if hasattr(self.cloud, "shutdown"):
            self.cloud.shutdown()

    def Shutdown(self, request, context):
        self.end()
        return pb.ShutdownResponse()


def serve(cloud):
    """Serves a cloud to the runner that started this program, until that ends."""
    rung_plugin.serve(pb, "InstanceGroup", Service(cloud), describe)
