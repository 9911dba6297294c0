package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

func TestDoctorListsAndRemovesKeptProjects(t *testing.T) {
	program, err := executortest.Program()
	if err != nil {
		t.Fatal(err)
	}
	c := enginetest.Client(t)
	const name = "rung-kept-doctor-0"
	if _, err := c.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: name, Labels: map[string]string{"rung.kept": "doctor"}}); err != nil {
		t.Fatal(err)
	}
	doctor := func(args ...string) string {
		command := exec.CommandContext(t.Context(), program, append([]string{"doctor"}, args...)...)
		command.Env = append(os.Environ(), "DOCKER_HOST="+enginetest.Host(t), "LANG=C.UTF-8")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := doctor(); !strings.Contains(out, "the project folder doctor, in "+name) {
		t.Errorf("it is not listed:\n%s", out)
	}
	if out := doctor("--remove-kept", "doctor"); !strings.Contains(out, "removed the project folder doctor, in "+name) {
		t.Errorf("it is not removed:\n%s", out)
	}
	left, err := c.VolumeList(t.Context(), client.VolumeListOptions{Filters: client.Filters{}.Add("label", "rung.kept=doctor")})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("left: %v %v", left.Items, err)
	}
}
