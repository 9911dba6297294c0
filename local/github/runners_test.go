package github

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/local"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
)

func TestRunnersAreRead(t *testing.T) {
	got, err := ParseRunners("runners.yml", []byte("Ubuntu-Latest: {image: 'ubuntu:24.04'}\nwindows-latest: {isolation: none}\nbig: {isolation: container, image: x}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Runners{
		"ubuntu-latest": {Isolation: local.IsolateContainer, Image: "ubuntu:24.04"}, "windows-latest": {Isolation: local.IsolateNone},
		"big": {Isolation: local.IsolateContainer, Image: "x"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRunnersThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"[a]":                              "the file must be a map of labels",
		"a: b":                             "a runner must be a map",
		"a: {isolation: vm}":               "isolation must be none or container",
		"a: {isolation: container}":        "has no image",
		"a: {isolation: none, image: x}":   "isolation none uses no containers",
		"a: {image: [x]}":                  "image must be the name of an image",
		"a: {imge: x}":                     `"imge" is not a key of a runner`,
		"a: {image: x}\na: {image: y}":     "a",
		"a: {image: x}\nb: {isolation: 1}": ":2:",
	} {
		if _, err := ParseRunners("runners.yml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, not %q", text, err, want)
		}
	}
}

func FuzzParseRunners(f *testing.F) {
	f.Add("ubuntu-latest: {image: x}\n")
	f.Add("a: {isolation: none}\nb: [")
	f.Fuzz(func(t *testing.T, text string) {
		runners, err := ParseRunners("runners.yml", []byte(text))
		for label, r := range runners {
			if err == nil && (r.Isolation == local.IsolateContainer) != (r.Image != "") {
				t.Errorf("%q is %+v", label, r)
			}
		}
	})
}

func TestWhereJobsRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux: what other systems are is told from there")
	}
	runners := Runners{"gpu": {Isolation: local.IsolateContainer, Image: "cuda"}, "windows-2022": {Isolation: local.IsolateNone}}
	for _, test := range []struct {
		name   string
		labels []string
		image  string
		note   string // part of it
		reason string
	}{
		{name: "Linux is this machine, without a word", labels: []string{"ubuntu-latest"}},
		{name: "so is one's own", labels: []string{"self-hosted"}},
		{name: "a label of the file counts first", labels: []string{"self-hosted", "GPU"}, image: "cuda"},
		{name: "other systems are refused", labels: []string{"windows-latest"}, reason: "asks for Windows, and this machine is Linux"},
		{name: "unless they are mapped", labels: []string{"windows-2022"}},
		{name: "a Mac is refused", labels: []string{"macos-15-xlarge"}, reason: "asks for macOS"},
		{name: "a label that nobody knows runs here, with a word", labels: []string{"self-hosted", "rack-7"}, note: "this machine runs it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, note, reason := runners.choose(definition.RunsOn{Labels: test.labels})
			if got.Image != test.image || !strings.Contains(note, test.note) || !strings.Contains(reason, test.reason) || (note == "") != (test.note == "") || (reason == "") != (test.reason == "") {
				t.Errorf("%+v, note %q, reason %q", got, note, reason)
			}
		})
	}
}
