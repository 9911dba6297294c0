package container

import "testing"

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
