package container

import (
	"slices"
	"testing"
)

func TestShellsGetACommandAsOneWord(t *testing.T) {
	t.Parallel()
	command, word := []string{"/a", "it's"}, []string{`exec '/a' 'it'\''s'`}
	for _, test := range []struct{ entrypoint, want []string }{
		{[]string{"/bin/sh", "-c"}, word}, {[]string{"bash", "-lc"}, word}, {[]string{"/usr/bin/env", "bash", "-e", "-c"}, word}, {[]string{"/bin/busybox", "ash", "-ec"}, word},
		{nil, command}, {[]string{"-c"}, command}, {[]string{"sh"}, command}, {[]string{"/init", "-c"}, command}, {[]string{"sh", "-c", `exec "$@"`, "entry"}, command},
	} {
		if got := EntrypointArgs(test.entrypoint, command); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q", test.entrypoint, got)
		}
	}
}

func TestAnErrorOfTheStepRunnersIsNotTheEntrypoints(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code int
		said string
		want bool
	}{
		{5, "error: mkdir /nowhere: no such file or directory", true},
		{5, "hello from the entrypoint\nerror: it is broken\nhint: mend it", true},
		{5, "I run something else", false},
		{0, "error: that of another program", false},
		{1, "error: that of another program", false},
		{-1, "error: it did not end", false},
	} {
		if got := ownError(test.code, test.said); got != test.want {
			t.Errorf("%d, %q: %v", test.code, test.said, got)
		}
	}
}
