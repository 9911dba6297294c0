#!/usr/bin/env python3
"""Runs a file of steps on a step-runner and prints what they write: client.py TARGET FILE

TARGET is unix:/path/to/step-runner.sock or HOST:PORT. The environment variable STEP_RUNNER_TOKEN holds the token, where the
server wants one. The exit code is that of step-runner itself: 0 fine, 1 the steps failed, 3 the steps are wrong, ...

It needs grpcio and protobuf for Python, and protoc, which makes Python of the .proto files. The manual is docs/service.md.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import uuid

import grpc

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROTOS = ["rung/plan/v1/plan.proto", "rung/runner/v1/runner.proto"]


def load_messages():
    """Makes Python of the .proto files, in a folder for this run, and imports it."""
    folder = tempfile.TemporaryDirectory()
    subprocess.run(["protoc", f"--proto_path={REPOSITORY / 'api'}", f"--python_out={folder.name}", *PROTOS], check=True)
    sys.path.insert(0, folder.name)
    try:
        from rung.runner.v1 import runner_pb2
    finally:
        sys.path.pop(0)
        folder.cleanup()
    return runner_pb2


pb = load_messages()


class StepRunner:
    """The service's calls as methods: what the gRPC plugin of protoc would generate."""

    def __init__(self, channel):
        service = pb.DESCRIPTOR.services_by_name["StepRunner"]
        for method in service.methods:
            streams = method.name in ("FollowLogs", "FollowSteps", "GetTrace")
            call = channel.unary_stream if streams else channel.unary_unary
            setattr(self, method.name, call(
                f"/{service.full_name}/{method.name}",
                request_serializer=getattr(pb, method.input_type.name).SerializeToString,
                response_deserializer=getattr(pb, method.output_type.name).FromString,
            ))


def metadata():
    token = os.environ.get("STEP_RUNNER_TOKEN")
    return [("authorization", f"Bearer {token}")] if token else []


def diagnostics(error):
    """Returns what is wrong with the steps, from the details of the call's status."""
    found = pb.Diagnostics()
    for key, value in error.trailing_metadata() or []:
        if key == "grpc-status-details-bin":
            for detail in pb.CallStatus.FromString(value).details:
                detail.Unpack(found)
    return found.diagnostics


def follow(runner, run_id, out):
    """Copies the log to out until the run ends. Where the connection is lost, it goes on at its offset.

    A server that cannot keep the rest of the log says so, and the run goes on.
    """
    offset = 0
    while True:
        try:
            for piece in runner.FollowLogs(pb.FollowLogsRequest(id=run_id, offset=offset), metadata=metadata()):
                out.write(piece.data)
                out.flush()
                offset += len(piece.data)
            return
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DATA_LOSS:
                print(f"warning: {error.details()}", file=sys.stderr)
                return
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            time.sleep(0.2)


def wait(runner, run_id):
    """Returns how the run ended."""
    while True:
        status = runner.Status(pb.StatusRequest(id=run_id), metadata=metadata()).runs[0]
        if status.state != pb.STATE_RUNNING:
            return status
        time.sleep(0.2)


EXIT_CODES = {"STEP": 1, "DEFINITION": 3, "DENIED": 4, "SYSTEM": 5, "NOT_FOUND": 6, "TIMEOUT": 124, "CANCELLED": 130}


def run(runner, name, yaml, out):
    """Runs the steps and returns the exit code."""
    run_id = str(uuid.uuid4())
    request = pb.RunRequest(id=run_id, text=pb.Text(name=name, yaml=yaml), work_dir=os.getcwd())
    try:
        # Until its deadline, the call waits for a server that is about to start.
        runner.Run(request, metadata=metadata(), wait_for_ready=True, timeout=30)
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
            raise
        for d in diagnostics(error):
            print(f"{d.file}:{d.line}:{d.column}: {d.message}", file=sys.stderr)
            if d.hint:
                print(f"    hint: {d.hint}", file=sys.stderr)
        return EXIT_CODES["DEFINITION"]
    try:
        follow(runner, run_id, out)
        status = wait(runner, run_id)
    finally:
        runner.Close(pb.CloseRequest(id=run_id), metadata=metadata())
    if status.state == pb.STATE_SUCCESS:
        return 0
    where = f'step "{status.error.step_name}": ' if status.error.step_name else ""
    print(f"error: {where}{status.error.message}", file=sys.stderr)
    kind = pb.ErrorKind.Name(status.error.kind)
    return EXIT_CODES.get(kind[len("ERROR_KIND_"):], EXIT_CODES["SYSTEM"])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    target, path = sys.argv[1:]
    unlimited = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(target, options=unlimited) as channel:
        try:
            return run(StepRunner(channel), path, pathlib.Path(path).read_text(), sys.stdout.buffer)
        except grpc.RpcError as error:
            print(f"error: {error.code().name}: {error.details()}", file=sys.stderr)
            return EXIT_CODES["SYSTEM"]
        except KeyboardInterrupt:
            return EXIT_CODES["CANCELLED"]


if __name__ == "__main__":
    sys.exit(main())
