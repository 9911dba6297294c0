"""What a Python provider plugin imports: a program that makes machines for the jobs of a Rung runner. docs/plugins.md is the manual.

    class Mine(rung_provider.Fresh):
        name = "mine"

    rung_provider.serve(Mine())

It needs grpcio and protobuf for Python, and the program openssl. Each machine is made for one job and goes with it. Limits, leases, repeated and
cancelled calls, and clean-up after a crash are done: a subclass creates and deletes machines. It mirrors NewFresh of sdk/provider in Go.
"""

import json
import os
import pathlib
import secrets
import string
import threading
import time

import rung_plugin
from rung.provider.v1 import provider_pb2 as pb
from rung_plugin import log

ALIVE = 5  # seconds between two signs of life of a call that waits
MAX_OVER = 4096  # keys that are over and remembered
SUFFIX = ".machine"
NAMES = set(string.ascii_letters + string.digits + "-_")


class Error(rung_plugin.Error):
    """Why a call fails. Other exceptions are internal errors as well. option is a JSON pointer to the option that is wrong, in open: "/hosts/one"."""

    def __init__(self, message, code=pb.CODE_INTERNAL, option=""):
        super().__init__(message)
        self.code, self.option = code, option


def gone(reason):
    """The machine no longer exists."""
    return Error(reason, pb.CODE_GONE)


def wrong_option(pointer, message):
    """An option is wrong: of open. Who wrote the configuration is shown the line."""
    return Error(message, option=pointer)


def describe(error):
    """An exception as a message."""
    if isinstance(error, Error):
        return pb.Error(code=error.code, message=str(error), option=error.option)
    return pb.Error(code=pb.CODE_INTERNAL, message=str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}")


def machine(address, user="", key=b"", key_file="", host_key="", known_hosts="", jump="", **more):
    """A machine that is reached over SSH; more are name, level, env and temp, as in provider.proto."""
    return pb.Machine(access=pb.Access(protocol="ssh", address=address, user=user, key=key, key_file=key_file, host_key=host_key, known_hosts=known_hosts,
                                       jump=jump), **more)


class Fresh:
    """Machines that are made for one job each. Its methods are called from many threads."""

    name = version = summary = ""
    schema = None  # JSON schema of the options; None takes none
    max = 1  # machines at once
    has = pb.Needs()  # what every machine has
    check_every = 10  # seconds

    def open(self, setup, options):
        """Called first, once: with an OpenRequest, and the options as the schema accepts them."""

    def create(self, id, job, report, cancelled):
        """Makes the machine of an ID, and returns it once it can be reached: see machine(). A repeated call with an ID finds the one that is there.
        report(message) says how far it is; cancelled is an Event: give up."""
        raise NotImplementedError

    def delete(self, id):
        """Ends the machine of an ID. That there is none is no error."""
        raise NotImplementedError

    def check(self, id):
        """Raises gone(reason) when the machine of an ID does not exist any more."""


def enough(needs, has):
    """Whether machines that have all this are enough."""
    return (needs.os in ("", has.os) and needs.arch in ("", has.arch) and all(has.labels.get(k) == v for k, v in needs.labels.items())
            and all(getattr(needs, name) <= getattr(has, name) for name in ("cpus", "memory", "disk", "gpus")))


class Place:
    """What there is of a key."""

    def __init__(self, id):
        self.id, self.until, self.job = id, 0.0, None
        self.machine = self.error = None  # of the last attempt to make it
        self.making = self.ender = None  # threads
        self.cancelled = threading.Event()
        self.tried = self.ending = False
        self.ended, self.why = threading.Event(), None  # of the machine
        self.reports = []

    def end(self, code, reason):
        if self.why is None:
            self.why = pb.Error(code=code, message=reason)
            self.ended.set()


class Service:
    """The calls of provider.proto. A stream of responses is a generator."""

    def __init__(self, provider):
        self.provider, self.opened, self.closed = provider, False, False
        self.news = threading.Condition()  # guards what follows, and tells of changes
        self.held, self.over, self.left = {}, {}, set()

    def change(self):
        with self.news:
            self.news.notify_all()

    def Describe(self, request, context):
        p = self.provider
        return pb.DescribeResponse(name=p.name, version=p.version, summary=p.summary, options_schema=json.dumps(p.schema) if p.schema else "")

    def Open(self, request, context):
        self.lease = request.lease.ToTimedelta().total_seconds() or 120
        self.state = pathlib.Path(request.state)
        self.state.mkdir(parents=True, exist_ok=True)
        self.left = {file.stem for file in self.state.glob("*" + SUFFIX)}
        self.swept = time.monotonic() + self.lease
        self.provider.open(request, json.loads(request.options or "{}"))
        threading.Thread(target=self.expire, daemon=True).start()
        ended = threading.Event()
        context.add_callback(ended.set)
        self.opened = True
        yield pb.OpenResponse()
        ended.wait()
        if not self.closed:
            os._exit(1)  # the runner is dead

    def free(self, needs):
        room = self.provider.max - len(self.held) - len(self.left)
        if not enough(needs, self.provider.has):
            return pb.CapacityResponse(reason="the machines do not have what is needed")
        if room <= 0:
            return pb.CapacityResponse(reason=f"there are {self.provider.max} machines, which is the limit")
        return pb.CapacityResponse(free=room)

    def Capacity(self, request, context):
        context.add_callback(self.change)
        last = None
        while True:
            with self.news:
                self.news.wait_for(lambda: self.closed or not context.is_active() or self.free(request.needs) != last)
                last = self.free(request.needs)
            if self.closed:
                raise Error("the provider is closed")
            if not context.is_active():
                return
            yield last

    def hold(self, key, id):
        place = self.held[key] = Place(id)
        place.until = time.monotonic() + self.lease
        self.news.notify_all()
        return place

    def Reserve(self, request, context):
        key = request.key
        if not 1 <= len(key) <= 64 or not NAMES.issuperset(key):
            raise Error(f"a key must be 1 to 64 letters, digits, - and _, not {key!r}")
        with self.news:
            if self.closed:
                raise Error("the provider is closed")
            if key in self.over:
                raise Error("the key was released, and cannot be used again", pb.CODE_RELEASED)
            if key in self.held:
                self.held[key].until = time.monotonic() + self.lease
                return pb.ReserveResponse()
            if reason := self.free(request.needs).reason:
                raise Error(reason, pb.CODE_NO_CAPACITY)
            self.hold(key, "rung-" + secrets.token_hex(10))
        return pb.ReserveResponse()

    def Keep(self, request, context):
        lost = []
        with self.news:
            for key in request.keys:
                place = self.held.get(key)
                if place and not place.ending:
                    place.until = time.monotonic() + self.lease
                else:
                    lost.append(key)
        return pb.KeepResponse(lost=lost)

    def Acquire(self, request, context):
        with self.news:
            place = self.held.get(request.key)
            if not place or place.ending or self.closed:
                raise Error("nothing is reserved under this key", pb.CODE_NOT_RESERVED)
            self.begin(place, request.job)
        yield from self.wait(place, context)

    def Recover(self, request, context):
        with self.news:
            place = self.held.get(request.key)
            if request.key in self.over or place and place.ending or self.closed:
                raise gone("it was given back")
            known = place is not None
            if not known:
                try:
                    id = json.loads(request.handle)
                except ValueError:
                    id = None
                if not isinstance(id, str) or id not in self.left:
                    raise gone("there is no record of the machine")
                self.left.remove(id)
                place = self.hold(request.key, id)
            self.begin(place, pb.Job())
        try:
            yield from self.wait(place, context)
        except Error:
            if not known:
                self.release(request.key)  # there is none: nobody has to give it back
            raise

    def begin(self, place, job):
        """Begins to make a machine, or joins what is under way or done. The lock is held."""
        if place.making is None:
            place.error, place.tried = None, True
            place.making = threading.Thread(target=self.make, args=(place, job), daemon=True)
            place.making.start()

    def make(self, place, job):
        def report(message):
            with self.news:
                place.reports.append(pb.Preparing(phase="provisioning", message=message))
                self.news.notify_all()

        record = self.state / (place.id + SUFFIX)
        made, failed = None, None
        try:
            if record.exists():
                self.provider.check(place.id)
            record.touch(0o600)  # before it is made
            made = self.provider.create(place.id, job, report, place.cancelled)
            if not made.access.address and made.access.protocol != "local":
                raise Error("the machine cannot be reached: there is no address")
            made.name, made.slot, made.fresh, made.handle = made.name or place.id, -1, True, json.dumps(place.id)
        except Exception as error:
            made, failed = None, error
        with self.news:
            place.machine, place.error = made, failed
            if failed:
                place.making = None  # another attempt may have better luck
            self.news.notify_all()
        if made:
            threading.Thread(target=self.watch, args=(place,), daemon=True).start()

    def watch(self, place):
        while not place.ended.wait(self.provider.check_every):
            try:
                self.provider.check(place.id)
            except Error as error:
                if error.code == pb.CODE_GONE:
                    place.end(pb.CODE_GONE, str(error))
            except Exception as error:
                log(f"whether the machine {place.id} is still there is not known: {error}", "warn")

    def wait(self, place, context):
        """Tells a caller how far a machine is, and then the machine."""
        context.add_callback(self.change)
        sent, cause = 0, None
        while True:
            with self.news:
                self.news.wait_for(lambda: place.ending or place.machine or place.error or len(place.reports) > sent or not context.is_active(), ALIVE)
                reports, made, cause, ending = place.reports[sent:], place.machine, place.error, place.ending
            sent += len(reports)
            for said in reports:
                yield pb.AcquireResponse(preparing=said)
            if ending:
                raise Error("nothing is reserved under this key", pb.CODE_NOT_RESERVED)
            if cause:
                raise cause
            if made:
                yield pb.AcquireResponse(machine=made)
                return
            if not context.is_active():
                return
            yield pb.AcquireResponse()  # still at it

    def Watch(self, request, context):
        context.add_callback(self.change)
        with self.news:
            place, over = self.held.get(request.key), request.key in self.over
        if place is None and over:  # the release was quicker than this call
            yield pb.WatchResponse(error=pb.Error(code=pb.CODE_CLOSED, message="the machine was given back"))
            return
        if place is None:
            yield pb.WatchResponse(error=pb.Error(code=pb.CODE_GONE, message="the plugin has no machine of this key"))
            return
        while not place.ended.wait(0.2):
            if not context.is_active():
                return
        yield pb.WatchResponse(error=place.why)

    def Release(self, request, context):
        self.release(request.key)
        return pb.ReleaseResponse()

    def release(self, key):
        with self.news:
            self.finished(key)
            place = self.held.get(key)
            if place is None:
                return
            ender = self.finish(key, place)
        ender.join()
        if place.error and key in self.held:
            raise place.error

    def finished(self, key):
        """Remembers a key that is over. The lock is held."""
        self.over[key] = True
        while len(self.over) > MAX_OVER:
            del self.over[next(iter(self.over))]

    def finish(self, key, place):
        """Begins to end what there is of a key, or joins who does. The lock is held."""
        if place.ender is None:
            place.ending = True
            place.cancelled.set()
            place.end(pb.CODE_CLOSED, "the machine was given back")
            place.ender = threading.Thread(target=self.ending, args=(key, place, place.making), daemon=True)
            place.ender.start()
            self.news.notify_all()
        return place.ender

    def ending(self, key, place, making):
        if making:
            making.join()
        failed = None
        try:
            if place.tried:
                self.remove(place.id)
        except Exception as error:
            failed = error
        with self.news:
            place.error = failed
            if failed:
                place.ender, place.until = None, time.monotonic() + self.lease  # when it is tried again
            else:
                self.held.pop(key, None)
            self.news.notify_all()

    def remove(self, id):
        self.provider.delete(id)
        (self.state / (id + SUFFIX)).unlink(missing_ok=True)

    def expire(self):
        """Releases keys that nobody keeps, and what processes before have left and nobody recovers."""
        while not self.closed:
            time.sleep(self.lease / 8)
            now = time.monotonic()
            with self.news:
                for key, place in list(self.held.items()):
                    if now > place.until and place.ender is None:
                        self.finished(key)
                        self.finish(key, place)
                late = now > self.swept
                left = list(self.left) if late else []
            for id in left:
                with self.news:
                    if id not in self.left or self.closed:
                        continue
                    self.left.remove(id)  # nobody recovers it meanwhile
                    self.held["left " + id] = Place(id)  # which no key can be
                    self.held["left " + id].until = float("inf")
                failed = None
                try:
                    self.remove(id)
                except Exception as error:
                    failed = error
                    log(f"deleting the machine {id}, which a process before has left: {error}", "warn")
                with self.news:
                    del self.held["left " + id]
                    if failed:
                        self.left.add(id)
                        self.swept = time.monotonic() + self.lease
                    self.news.notify_all()

    def Close(self, request, context):
        with self.news:
            self.closed = True
            self.news.notify_all()
            places = list(self.held.values())
            for place in places:
                if place.machine is None:
                    place.cancelled.set()
        for thread in [t for place in places for t in (place.making, place.ender) if t]:
            thread.join()
        return pb.CloseResponse()


def serve(provider):
    """Serves a provider to the runner that started this program, until that ends."""
    rung_plugin.serve(pb, "Provider", Service(provider), describe)
