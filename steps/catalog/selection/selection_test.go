package selection

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/programtest"
)

func TestFind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	programtest.Write(t, dir, map[string]string{"a.txt": "a", "sub/b.txt": "b", "sub/c.log": "c", "keep/store/d.txt": "d", "keeper.txt": "e", "../outside.txt": "x"})
	for _, tc := range []struct {
		name string
		r    Request
		want []string
		log  []string
	}{
		{"what patterns find is counted", Request{Paths: []string{"*.txt", "sub"}}, []string{"a.txt", "keeper.txt", "sub", "sub/b.txt", "sub/c.log"}, []string{"*.txt: 2 files and folders\n", "sub: 3 files and folders\n"}},
		{"what is left out is counted", Request{Paths: []string{"sub/**"}, Exclude: []string{"**/*.log"}}, []string{"sub", "sub/b.txt"}, []string{"**/*.log: leaves out 1 file or folder\n"}},
		{"a folder of the step's own is not part of it", Request{Paths: []string{"keep*"}, Without: []string{"keep/store", ""}}, []string{"keep", "keeper.txt"}, nil},
		{"also when it is written as a whole path", Request{Paths: []string{"keep*"}, Without: []string{filepath.Join(dir, "keep")}}, []string{"keeper.txt"}, nil},
		{"a folder outside takes nothing away", Request{Paths: []string{"a.txt"}, Without: []string{"..", "../a.txt", dir}}, []string{"a.txt"}, nil},
		{"what is outside is refused", Request{Paths: []string{"../outside.txt"}}, []string{}, []string{`warning: "../outside.txt" is ignored: `}},
		{"what is not there is a warning", Request{Paths: []string{"none\n"}}, []string{}, []string{`warning: "none\n": no matching files`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			entries, err := Find(t.Context(), &program.Call{WorkDir: dir, Stdout: &log, Stderr: &log}, tc.r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, Names(entries)); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
			for _, line := range tc.log {
				if !strings.Contains(log.String(), line) {
					t.Errorf("the log has no %q:\n%s", line, log.String())
				}
			}
		})
	}
}

func TestACancelledSearchEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var log bytes.Buffer
	if _, err := Find(ctx, &program.Call{WorkDir: t.TempDir(), Stdout: &log, Stderr: &log}, Request{Paths: []string{"**"}, Untracked: true}); err == nil {
		t.Error("it does not end")
	}
}
