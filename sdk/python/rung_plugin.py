"""What every kind of Python plugin has: it serves the runner that started the program. Plugins import rung_executor or rung_provider."""

import base64
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback

import grpc
from google.protobuf import any_pb2, descriptor_pb2

from rung.executor.v1.executor_pb2 import Status

COOKIE = ("RUNG_EXECUTOR_PLUGIN", "rung.executor")


class Error(Exception):
    """Why a call fails, said on purpose."""


def log(message, level="info"):
    """Writes a line to the runner's log."""
    print(json.dumps({"@level": level, "@message": message}), file=sys.stderr, flush=True)


def answering(call, streams, describe):
    """A call whose exceptions become errors with a code."""

    def fail(error, context):
        if isinstance(error, grpc.RpcError):
            raise error  # the call has ended
        if not isinstance(error, (Error, OSError)):
            log(traceback.format_exc().replace("\n", " | "), "warn")
        detail = any_pb2.Any()
        detail.Pack(describe(error))
        text = Status(code=grpc.StatusCode.INTERNAL.value[0], message=str(error), details=[detail])
        context.set_trailing_metadata((("grpc-status-details-bin", text.SerializeToString()),))
        context.abort(grpc.StatusCode.INTERNAL, str(error) or type(error).__name__)

    def unary(request, context):
        try:
            return call(request, context)
        except Exception as error:
            fail(error, context)

    def stream(request, context):
        try:
            yield from call(request, context)
        except Exception as error:
            fail(error, context)

    return stream if streams else unary


def handlers(pb, service, methods, describe):
    """The calls that a service has, for gRPC."""
    out = {}
    for method in methods:
        if call := getattr(service, method.name, None):
            is_stream = descriptor_pb2.MethodDescriptorProto()
            method.CopyToProto(is_stream)
            asks, answers = is_stream.client_streaming, is_stream.server_streaming
            make = getattr(grpc, f"{'stream' if asks else 'unary'}_{'stream' if answers else 'unary'}_rpc_method_handler")
            out[method.name] = make(answering(call, answers, describe), getattr(pb, method.input_type.name).FromString,
                                    getattr(pb, method.output_type.name).SerializeToString)
    return out


def serve(pb, name, service, describe):
    """Serves a service of a .proto file to the runner that started this program, until that ends. describe makes a message of an exception."""
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.exit("This program is a plugin of a Rung runner, which starts it. Its manual is docs/plugins.md.")
    # What this program and those that it starts print goes to the runner's log. The runner reads one line of standard output.
    to_runner = os.dup(1)
    os.dup2(2, 1)
    sys.stdout.flush()
    sys.stdout = sys.stderr
    # A Ctrl-C is sent to all processes of the terminal: the runner obeys it, and ends its plugins. Programs that the plugin starts do not inherit the handler.
    signal.signal(signal.SIGINT, lambda *_: None)
    folder = tempfile.mkdtemp(dir=os.environ.get("PLUGIN_UNIX_SOCKET_DIR"))
    key, certificate, address = (os.path.join(folder, name) for name in ("key", "cert", "s"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    pair = pathlib.Path(key).read_bytes(), pathlib.Path(certificate).read_bytes()
    os.unlink(key)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1024), options=[("grpc.max_receive_message_length", 16 << 20)])
    descriptor = pb.DESCRIPTOR.services_by_name[name]
    over = threading.Event()

    def shutdown(request, context):
        threading.Timer(0.1, over.set).start()
        return b""

    server.add_generic_rpc_handlers((
        grpc.method_handlers_generic_handler(descriptor.full_name, handlers(pb, service, descriptor.methods, describe)),
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)}),
    ))
    server.add_secure_port(f"unix:{address}", grpc.ssl_server_credentials([pair], os.environ["PLUGIN_CLIENT_CERT"].encode(), True))
    server.start()
    der = base64.b64encode(base64.b64decode("".join(pair[1].decode().splitlines()[1:-1]))).decode().rstrip("=")
    os.write(to_runner, f"1|1|unix|{address}|grpc|{der}\n".encode())
    threading.Timer(30, lambda: service.opened or os._exit(1)).start()
    over.wait()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # what is left are threads of calls that nobody waits for
