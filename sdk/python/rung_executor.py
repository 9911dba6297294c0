"""What a Python executor plugin imports: a program that makes environments for the jobs of a Rung runner. docs/plugins.md is the manual.

    class Mine(rung_executor.Processes):
        name = level = "mine"

    rung_executor.serve(Mine())

It needs grpcio and protobuf for Python, and the program openssl. Executor and Environment are the contract; Processes implements it for
jobs that are processes of this machine. Shells and taking environments over from another process are left out.
"""

import fcntl
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import grpc

import rung_plugin
from rung.executor.v1 import executor_pb2 as pb
from rung_plugin import log

CHUNK = 64 << 10
START_TIME = END_TIME = 15  # seconds that a step-runner has to listen, and to end


class Error(rung_plugin.Error):
    """Why a call fails. The runner gets its code, which says whose fault it is; other exceptions are internal errors. option is a JSON pointer to the option that
    is wrong, in open: "/hosts/one"."""

    def __init__(self, message, code=pb.CODE_INTERNAL, hint="", cause=None, option=""):
        super().__init__(message)
        self.message = pb.Error(code=code, message=message, hint=hint, cause=cause and describe(cause), option=option)


def user_error(message, hint=""):
    """The job is the reason."""
    return Error(message, pb.CODE_USER, hint)


def gone(reason):
    """The environment can run nothing any more."""
    return Error(reason, pb.CODE_GONE)


def wrong_option(pointer, message):
    """An option is wrong: of open. Who wrote the configuration is shown the line."""
    return Error(message, option=pointer)


def describe(error):
    """An exception as a message."""
    if isinstance(error, Error):
        return error.message
    code = pb.CODE_INTERNAL
    if isinstance(error, FileNotFoundError):
        code = pb.CODE_NOT_FOUND
    elif isinstance(error, MemoryError):
        code = pb.CODE_OUT_OF_MEMORY
    elif isinstance(error, OSError) and error.errno in (28, 122):  # ENOSPC, EDQUOT
        code = pb.CODE_DISK_FULL
    return pb.Error(code=code, message=f"{type(error).__name__}: {error}" if code == pb.CODE_INTERNAL else str(error))


class Environment:
    """Where one job runs. end() says that it has ended by itself."""

    handle = {}  # what is stored: JSON, without secrets
    id = project = temp = bin = ""  # Layout: absolute paths
    env = {}
    shared = False  # paths are paths on the runner's machine

    def __init__(self):
        self.ended = threading.Event()
        self.reason = None

    def end(self, reason):
        if self.reason is None:
            self.reason = reason
            self.ended.set()

    def check(self):
        if self.reason:
            raise gone(self.reason)

    def connect(self):
        """Returns a socket that leads to the step-runner."""
        raise NotImplementedError

    def send(self, folder, archive):
        """Unpacks a tar archive, a file that can only be read on, below a folder."""
        raise NotImplementedError

    def fetch(self, path, archive):
        """Writes a file or folder as a tar archive."""
        raise NotImplementedError

    def close(self):
        """Ends and removes everything. It may be called again."""
        raise NotImplementedError


class Executor:
    """Makes environments. Its methods are called from many threads."""

    name = version = level = rank = summary = ""
    schema = None  # JSON schema of the options; None takes none
    capabilities = {}  # by the names in executor.proto

    def open(self, setup, options):
        """Called first, once: with an OpenRequest, and the options as the schema accepts them."""

    def prepare(self, job, report, cancelled):
        """Returns an Environment. report(phase) says how far it is; cancelled is an Event: give up, and leave nothing."""
        raise NotImplementedError

    def sweep(self):
        """Removes what is left of environments whose process was killed."""

    def close(self):
        """Ends the executor."""


class Processes(Executor):
    """Jobs that are processes of this machine. Each has a step-runner that is started through a command of the plugin."""

    def through(self, command, job):
        """Returns the command that starts the given one for a job. What is started must end when its standard input ends."""
        return command

    def open(self, setup, options):
        self.setup = setup
        self.temp = setup.temp or tempfile.gettempdir()
        own = [p.file for p in setup.programs if p.os == sys.platform]
        if not own:
            raise Error(f"the runner has no step-runner for {sys.platform}")
        self.program = own[-1]
        self.state = pathlib.Path(setup.state or os.path.expanduser("~/.local/state/rung"))
        self.ledger = None
        self.lock = threading.Lock()

    def record(self, folder):
        """Writes down what is about to be made. The file is locked as long as this process lives."""
        with self.lock:
            if self.ledger is None:
                self.state.mkdir(parents=True, exist_ok=True)
                self.ledger = open(self.state / f"{self.level}-{secrets.token_hex(8)}.ledger", "w")
                fcntl.flock(self.ledger, fcntl.LOCK_EX)
            self.ledger.write(json.dumps(str(folder)) + "\n")
            self.ledger.flush()

    def prepare(self, job, report, cancelled):
        report("starting")
        environment = Process(self, job)
        try:
            environment.start(cancelled)
        except BaseException:
            environment.close(keep=False)
            raise
        return environment

    def sweep(self):
        for name in self.state.glob(f"{self.level}-*.ledger"):
            with open(name) as ledger:
                try:
                    fcntl.flock(ledger, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # its process lives
                for line in ledger:
                    if line.endswith("\n"):
                        end(json.loads(line))
                name.unlink(missing_ok=True)

    def close(self):
        if self.ledger:
            os.unlink(self.ledger.name)
            self.ledger.close()


class Process(Environment):
    """A job's folder, and the step-runner that works in it."""

    def __init__(self, executor, job):
        super().__init__()
        self.executor, self.job, self.process, self.closing = executor, job, None, threading.Lock()
        root = pathlib.Path(job.root or executor.temp)
        self.folder = root / (job.id if job.root else f"rung-{job.id}-{secrets.token_hex(6)}")
        self.id, self.handle, self.shared = self.folder.name, {"folder": str(self.folder)}, True
        self.project, self.bin = str(self.folder / job.project_name), str(self.folder / ".bin")
        self.temp = self.project + ".tmp"
        self.socket = str(self.folder / ".s")

    def start(self, cancelled):
        if os.path.lexists(self.folder):
            raise Error(f"{self.folder} already exists; remove it if nobody needs it")
        self.executor.record(self.folder)
        for path, mode in ((self.folder, 0o700), (self.project, 0o755), (self.temp, 0o700), (self.bin, 0o700)):
            os.makedirs(path, mode)
        os.symlink(self.executor.program, os.path.join(self.bin, "step-runner"))
        if len(self.socket) > 75:  # more than that is too long for a socket on some systems
            raise Error(f"the folder {self.folder} has too long a name; choose a shorter one for temporary files")
        setup = self.executor.setup
        serve = [self.executor.program, "serve", "--socket", self.socket, "--end-with", "stdin", *setup.terms, *setup.serve]
        self.process = subprocess.Popen(self.executor.through(serve, self.job), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        threading.Thread(target=lambda: self.end(f"its step-runner ended with exit code {self.process.wait()}"), daemon=True).start()
        until = time.monotonic() + START_TIME
        while True:
            try:
                return self.connect().close()
            except OSError as error:
                if time.monotonic() > until:
                    raise Error(f"the step-runner did not listen within {START_TIME} s: {error}")
            self.check()
            if cancelled.wait(0.005):
                raise Error("the preparation was cancelled", pb.CODE_CANCELLED)

    def connect(self):
        self.check()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.socket)
        except OSError:
            connection.close()
            self.check()
            raise
        return connection

    def check(self):
        super().check()
        if self.process and self.process.poll() is not None:
            raise gone(f"its step-runner ended with exit code {self.process.returncode}")

    def send(self, folder, archive):
        unpack(folder, archive)

    def fetch(self, path, archive):
        os.lstat(path)  # FileNotFoundError
        # The other formats cannot hold names that are not UTF-8.
        with tarfile.open(fileobj=archive, mode="w|", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
            tar.add(path, os.path.basename(path.rstrip("/")))

    def close(self, keep=None):
        with self.closing:
            self.end("it was closed")
            if self.process:
                self.process.stdin.close()  # which ends it, and what it runs
                try:
                    self.process.wait(END_TIME)
                except subprocess.TimeoutExpired:
                    os.killpg(self.process.pid, signal.SIGKILL)
                    self.process.wait()
            if keep is None and self.job.keep:
                return
            end(self.folder)


def unpack(folder, archive):
    """Unpacks a tar archive, and writes nothing outside of the folder, whatever it holds and whatever a job has put into the folder."""
    os.makedirs(folder, exist_ok=True)
    root = os.path.realpath(folder)

    def within(name):
        path = os.path.join(root, name)
        parent = os.path.realpath(os.path.dirname(path.rstrip("/")))
        if os.path.isabs(name) or ".." in name.split("/") or os.path.commonpath([root, parent]) != root:
            raise Error(f"the archive has an entry that leads out of its folder: {name!r}")
        return path.rstrip("/")

    with tarfile.open(fileobj=archive, mode="r|") as tar:
        for member in tar:
            path = within(member.name)
            if member.islnk() and os.path.islink(within(member.linkname)):
                raise Error(f"the archive has a hard link to a symbolic one: {member.name!r}")
            if os.path.lexists(path) and not (member.isdir() and stat.S_ISDIR(os.lstat(path).st_mode)):
                remove(path)
            member.uid, member.gid, member.mode = os.getuid(), os.getgid(), member.mode & 0o777
            member.uname = member.gname = ""
            if member.isreg() or member.isdir() or member.issym() or member.islnk():
                tar.extract(member, root)


def end(path):
    """Kills the processes of a job whose project is in a folder, and removes that."""
    prefix = os.fsencode(f"CI_PROJECT_DIR={path}/")
    for environ in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if any(v.startswith(prefix) for v in environ.read_bytes().split(b"\0")):
                os.kill(int(environ.parent.name), signal.SIGKILL)
        except OSError:
            pass  # it has ended, or is another user's
    remove(path)


def remove(path):
    """Removes a file, or a folder with all that is in it, however read-only it is."""
    if os.path.islink(path) or os.path.isfile(path):
        return os.unlink(path)
    for attempt in range(3):
        for folder, folders, _ in os.walk(path):
            for name in [".", *folders]:
                if not os.path.islink(os.path.join(folder, name)):
                    os.chmod(os.path.join(folder, name), 0o700)
        shutil.rmtree(path, ignore_errors=attempt < 2)
        if not os.path.lexists(path):
            return


class Place:
    """An environment, from the moment at which it is asked for."""

    def __init__(self):
        self.cancelled, self.news, self.reports = threading.Event(), threading.Condition(), []
        self.environment = self.error = None

    def report(self, phase, subject="", current=0, total=0, unit="", done=False, message=""):
        with self.news:
            self.reports.append(pb.Preparing(phase=phase, subject=subject, current=current, total=total, unit=unit, done=done, message=message))
            self.news.notify_all()

    def make(self, executor, job):
        try:
            environment, error = executor.prepare(job, self.report, self.cancelled), None
        except BaseException as caught:
            environment, error = None, caught
        with self.news:
            self.environment, self.error = environment, error
            self.news.notify_all()

    def wait(self):
        with self.news:
            self.news.wait_for(lambda: self.environment or self.error)
        if self.error:
            raise self.error
        return self.environment


class Service:
    """The calls of executor.proto. A stream of requests is an iterator, and one of responses a generator."""

    def __init__(self, executor):
        self.executor, self.places, self.over, self.lock, self.opened, self.closed = executor, {}, set(), threading.Lock(), False, False

    def find(self, id):
        with self.lock:
            place = self.places.get(id)
        if place is None:
            raise gone("the plugin does not know the environment: it was cleaned up, or is another process's")
        return place.wait()

    def Describe(self, request, context):
        e = self.executor
        return pb.DescribeResponse(name=e.name, version=e.version, level=e.level, rank=e.rank, summary=e.summary,
                                   options_schema=json.dumps(e.schema) if e.schema else "")

    def Open(self, request, context):
        self.executor.open(request, json.loads(request.options or "{}"))
        ended = threading.Event()
        context.add_callback(ended.set)
        self.opened = True
        yield pb.OpenResponse(capabilities=pb.Capabilities(**self.executor.capabilities))
        ended.wait()
        if not self.closed:
            os._exit(1)  # the runner is dead

    def Prepare(self, request, context):
        with self.lock:
            if request.environment in self.over:
                raise gone("the environment was cleaned up before it was asked for")
            place = self.places.get(request.environment)
            if place is None:
                place = self.places[request.environment] = Place()
                threading.Thread(target=place.make, args=(self.executor, request.job), daemon=True).start()
        sent = 0
        while True:
            with place.news:
                place.news.wait_for(lambda: len(place.reports) > sent or place.environment or place.error)
                reports, over = place.reports[sent:], place.environment or place.error
            for report in reports:
                yield pb.PrepareResponse(preparing=report)
            sent += len(reports)
            if over and not reports:
                break
        e = place.wait()
        yield pb.PrepareResponse(environment=pb.Environment(
            handle=pb.Handle(level=self.executor.level, host="local", id=e.id, state=json.dumps(e.handle)),
            layout=pb.Layout(project=e.project, temp=e.temp, bin=e.bin, env=e.env, shared=e.shared)))

    def Watch(self, request, context):
        environment, over = self.find(request.environment), threading.Event()
        context.add_callback(over.set)
        while not environment.ended.wait(0.2):
            if over.is_set():
                return
        yield pb.WatchResponse(error=pb.Error(code=pb.CODE_GONE, message=environment.reason))

    def Check(self, request, context):
        self.find(request.environment).check()
        return pb.CheckResponse()

    def Connect(self, requests, context):
        connection = self.find(next(requests).environment).connect()
        context.add_callback(lambda: shut(connection))

        def forward():
            try:
                for request in requests:
                    connection.sendall(request.data)
            except (OSError, grpc.RpcError):
                pass  # the other direction ends, too
            shut(connection)

        threading.Thread(target=forward, daemon=True).start()
        yield pb.ConnectResponse()
        try:
            while data := connection.recv(CHUNK):
                yield pb.ConnectResponse(data=data)
        except OSError:
            pass
        finally:
            connection.close()

    def Send(self, requests, context):
        first = next(requests)
        self.find(first.environment).send(first.dir, Reader(first.data, requests))
        for _ in requests:
            pass
        return pb.SendResponse()

    def Fetch(self, request, context):
        environment = self.find(request.environment)
        read, write = socket.socketpair()
        failed = []

        def pack():
            try:
                with write, write.makefile("wb") as archive:
                    environment.fetch(request.path, archive)
            except BaseException as error:
                failed.append(error)

        packer = threading.Thread(target=pack, daemon=True)
        packer.start()
        with read:
            while data := read.recv(CHUNK):
                yield pb.FetchResponse(data=data)
        packer.join()
        if failed:
            raise failed[0]

    def Detach(self, request, context):
        raise Error("the environment ends with this process: the plugin does not hand environments on")

    def Cleanup(self, request, context):
        with self.lock:
            self.over.add(request.environment)
            place = self.places.get(request.environment)
        if place:
            place.cancelled.set()
            try:
                environment = place.wait()
            except BaseException:
                environment = None
            if environment:
                environment.close()
            with self.lock:
                self.places.pop(request.environment, None)
        return pb.CleanupResponse()

    def Sweep(self, request, context):
        self.executor.sweep()
        return pb.SweepResponse()

    def Close(self, request, context):
        if not self.closed:
            self.closed = True
            self.executor.close()
        return pb.CloseResponse()


def shut(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Reader:
    """The data of requests as a file."""

    def __init__(self, first, requests):
        self.rest, self.requests = first, requests

    def read(self, size):
        data = bytearray()
        while len(data) < size:
            if not self.rest:
                message = next(self.requests, None)
                if message is None:
                    break
                self.rest = message.data
            wanted = size - len(data)
            data += self.rest[:wanted]
            self.rest = self.rest[wanted:]
        return bytes(data)


def serve(executor):
    """Serves an executor to the runner that started this program, until that ends."""
    rung_plugin.serve(pb, "Executor", Service(executor), describe)
