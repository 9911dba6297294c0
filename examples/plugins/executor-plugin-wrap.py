#!/usr/bin/python3
"""An example of an executor plugin in Python: it starts the step-runner of each job through a command of the operator's choice.

    [runners.plugin]
    name = "wrap"
    file = "executor-plugin-wrap.py"
    [runners.plugin.options]
    command = ["nice", "-n", "10"]
    forbidden = ["group/secret-project"]

It does what executor-plugin-wrap/main.go does, and refuses the jobs of some projects.
"""

import pathlib
import shutil
import subprocess
import sys

# A plugin of yours brings the SDK along, for instance in a zip application.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python"))
import rung_executor


class Wrap(rung_executor.Processes):
    name = level = "wrap"
    version = "1.0.0"
    summary = "a process that is started through a command of yours"
    schema = {
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            "forbidden": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["command"],
        "additionalProperties": False,
    }

    def open(self, setup, options):
        super().open(setup, options)
        self.command = options["command"]
        self.forbidden = options.get("forbidden", [])
        if not shutil.which(self.command[0]):
            raise rung_executor.wrong_option("/command/0", f"there is no command {self.command[0]}; install it, or give its path")
        tried = subprocess.run([*self.command, "true"], capture_output=True, text=True)  # better now than in every job
        if tried.returncode != 0:
            raise rung_executor.Error(f"the command {self.command} does not start programs on this machine: {tried.stderr.strip()}")
        rung_executor.log(f"jobs are started through {self.command}")

    def prepare(self, job, report, cancelled):
        project = job.variables.get("CI_PROJECT_PATH", "")
        if project in self.forbidden:
            raise rung_executor.user_error(
                f"the project {project} may not run here", hint="choose a runner with another tag, or ask its operator")
        return super().prepare(job, report, cancelled)

    def through(self, command, job):
        return [*self.command, *command]


if __name__ == "__main__":
    rung_executor.serve(Wrap())
