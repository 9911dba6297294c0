#!/usr/bin/python3
"""An example of an instance-group plugin in Python: commands of yours create, list and delete the machines of a fleet.

    [runners.autoscaler]
    plugin = "command"
    [runners.autoscaler.plugin_config]
    create = ["create-vm"]  # is given a name, prints an ID; the environment has LABELS (JSON), PUBLIC_KEY, SHAPE and ZONE
    list = ["list-vms"]     # prints [{"id": "vm-7", "state": "running", "addresses": ["10.0.0.7"], "labels": {...}}, ...]
    delete = ["delete-vm"]  # is given an ID; 0 if it is gone, or was never there
    max = 5

A command that ends with 75 may work later (sysexits: EX_TEMPFAIL), with 77 it was refused (EX_NOPERM), and with 69 there is no room (EX_UNAVAILABLE).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

# A plugin of yours brings the SDK along, for instance in a zip application.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python"))
import rung_instancegroup
from rung_instancegroup import Machine, quota, transient, unauthorised

COMMAND = {"type": "array", "items": {"type": "string"}, "minItems": 1}
ERRORS = {69: quota, 75: transient, 77: unauthorised}
SECONDS = 300  # that a command may take


class Command(rung_instancegroup.Cloud):
    name = "command"
    version = "1.0.0"
    schema = {
        "type": "object",
        "properties": {"create": COMMAND, "list": COMMAND, "delete": COMMAND, "max": {"type": "integer", "minimum": 1}},
        "required": ["create", "list", "delete", "max"],
        "additionalProperties": False,
    }

    def open(self, settings, options):
        self.options = options
        for name in ("create", "list", "delete"):
            if not shutil.which(options[name][0]):
                raise rung_instancegroup.wrong_option(f"/{name}/0", f"there is no command {options[name][0]}; install it, or give its path")
        self.machines()  # better now than with every job
        return f"command/{settings.owner}", options["max"]

    def machines(self):
        text = self.run("list")
        try:
            return [Machine(**machine) for machine in json.loads(text)]
        except (ValueError, TypeError) as error:
            raise rung_instancegroup.Error(f"{self.options['list'][0]} must print a JSON list of machines: {error}")

    def create(self, order):
        if len(self.machines()) >= self.options["max"]:
            raise quota(f"there are {self.options['max']} machines, which is the limit")
        more = {"LABELS": json.dumps(order.labels), "PUBLIC_KEY": order.public_key, "SHAPE": order.shape, "ZONE": order.zone}
        return self.run("create", order.name, env={**os.environ, **more}).strip()

    def delete(self, id):
        self.run("delete", id)

    def run(self, name, *arguments, env=None):
        """Runs a command, and returns what it prints. Its errors are in the runner's log."""
        try:
            done = subprocess.run([*self.options[name], *arguments], stdout=subprocess.PIPE, text=True, env=env, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise transient(f"{self.options[name][0]} has not ended within {SECONDS} seconds")
        if done.returncode:
            raise ERRORS.get(done.returncode, rung_instancegroup.Error)(f"{self.options[name][0]} has ended with {done.returncode}")
        return done.stdout


if __name__ == "__main__":
    rung_instancegroup.serve(Command())
