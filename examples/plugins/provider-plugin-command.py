#!/usr/bin/python3
"""An example of a provider plugin in Python: commands of yours make a machine for each job, check it, and remove it.

    [runners.provider]
    name = "command"
    file = "provider-plugin-command.py"
    [runners.provider.options]
    create = ["/usr/local/bin/create-vm"]  # is given an ID, and prints {"address": "10.0.0.7:22", "user": "ci", "host_key": "SHA256:..."}
    delete = ["/usr/local/bin/delete-vm"]  # is given the ID
    check = ["/usr/local/bin/check-vm"]    # is given the ID, and ends with 1 if the machine does not exist any more
    max = 5

It does what provider-plugin-command/main.go does, notices machines that somebody else has removed, and stops a command that nobody waits for.
"""

import json
import pathlib
import shutil
import subprocess
import sys

# A plugin of yours brings the SDK along, for instance in a zip application.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python"))
import rung_provider

COMMAND = {"type": "array", "items": {"type": "string"}, "minItems": 1}


class Command(rung_provider.Fresh):
    name = "command"
    version = "1.0.0"
    summary = "a machine for each job, made by a command of yours"
    schema = {
        "type": "object",
        "properties": {"create": COMMAND, "delete": COMMAND, "check": COMMAND, "max": {"type": "integer", "minimum": 1}},
        "required": ["create", "delete", "max"],
        "additionalProperties": False,
    }

    def open(self, setup, options):
        self.options, self.max = options, options["max"]
        for name in ("create", "delete", "check"):
            if name in options and not shutil.which(options[name][0]):
                raise rung_provider.wrong_option(f"/{name}/0", f"there is no command {options[name][0]}; install it, or give its path")

    def create(self, id, job, report, cancelled):
        report(f"{self.options['create'][0]} makes a machine")
        text = self.run("create", id, cancelled)
        try:
            return rung_provider.machine(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise rung_provider.Error(f"{self.options['create'][0]} must print a JSON object with the machine's address: {error}")

    def delete(self, id):
        self.run("delete", id)

    def check(self, id):
        if "check" in self.options and subprocess.run([*self.options["check"], id], stdout=subprocess.DEVNULL).returncode == 1:
            raise rung_provider.gone("somebody has removed it")

    def run(self, name, id, cancelled=None):
        """Runs a command with the ID of a machine, and returns what it prints."""
        command = subprocess.Popen([*self.options[name], id], stdout=subprocess.PIPE, text=True)  # its errors are in the runner's log
        while True:
            try:
                text, _ = command.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                if cancelled and cancelled.is_set():
                    command.terminate()
        if command.returncode != 0:
            raise rung_provider.Error(f"{self.options[name][0]} {id} has ended with {command.returncode}")
        return text


if __name__ == "__main__":
    rung_provider.serve(Command())
