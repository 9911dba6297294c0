package executortest

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
)

// leaveMess is what a hostile job leaves for the next one in a project folder that is kept.
const leaveMess = `
echo poison >"$TEMP_DIR/poison"; echo poison >"$CI_PROJECT_DIR/../poison"
mkdir -p .git/hooks ro/below many; chmod 500 ro/below ro
for hook in post-checkout post-index-change; do printf '#!/bin/sh\necho HOOKED\n' >.git/hooks/$hook; chmod 755 .git/hooks/$hook; done
printf '[core]\n\tfsmonitor = echo HOOKED\n\thooksPath = /nowhere\n[alias]\n\tcheckout = !echo HOOKED\n[credential]\n\thelper = !echo HOOKED\n' >.git/config
echo x >.git/index.lock
ln -s /nowhere link; ln -s "$TEMP_DIR" sent; ln -sf nowhere file
n=0; while [ $n -lt 2000 ]; do : >many/$n; n=$((n+1)); done
cd ..; mv "$CI_PROJECT_DIR" moved && ln -s "$PWD/moved" "$CI_PROJECT_DIR" || chmod 000 "$CI_PROJECT_DIR"`

// keptJob is a job whose project folder is kept.
func (s *suite) keptJob(id, kept string) *executor.Job {
	j := s.level.Job(id)
	j.KeepProject = kept
	return j
}

// forget removes the kept folders of a name.
func (p *opened) forget(t *testing.T, kept string) {
	if keeper, ok := p.Executor.(executor.Keeper); ok {
		all, err := keeper.Kept(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, one := range all {
			if one.Name != kept {
				continue
			}
			if err := keeper.Forget(context.Background(), one.Place); err != nil {
				t.Error(err)
			}
		}
	}
	folders, _ := filepath.Glob(filepath.Join(p.dir, "temp", kept+".*"))
	for _, folder := range folders {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	}
}

func (s *suite) keepsOfTheKilled(t *testing.T) {
	if !s.open(t).Capabilities().KeepProject {
		return // such jobs are refused
	}
	dir, kept := shortDir(t), "kept-"+strings.ToLower(rand.Text()[:10])
	user := "" // a folder is kept for the user that it was made for
	if image := s.level.Job("owned").Image; image != nil {
		user = image.User
	}
	owner := s.startOwner(t, dir, executor.Lease{}, ownerKept+"="+kept, ownerUser+"="+user)
	_ = owner.Process.Kill()
	_ = owner.Wait()
	p := s.openIn(t, dir)
	t.Cleanup(func() { p.forget(t, kept) })
	run := func(id, script string) {
		t.Helper()
		j := p.start(t, s.keptJob(id, kept))
		if log, err := j.script(t, script); err != nil {
			t.Errorf("%s: %v\n%s", id, err, log)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	run("before", "test ! -e file")
	if err := p.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	run("after", "test \"$(cat file)\" = kept")
}

func (s *suite) keeps(t *testing.T) {
	p := s.open(t)
	if !p.Capabilities().KeepProject {
		return // such jobs are refused
	}
	kept := "kept-" + strings.ToLower(rand.Text()[:10]) // other tests use the same engine
	t.Cleanup(func() { p.forget(t, kept) })
	run := func(id, script string) {
		t.Helper()
		j := p.start(t, s.keptJob(id, kept))
		if log, err := j.script(t, script); err != nil {
			t.Errorf("%s: %v\n%s", id, err, log)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	run("first", "test -z \"$(ls -A .)\"; echo kept >file")
	run("second", "test \"$(cat file)\" = kept")

	one := p.start(t, s.keptJob("one", kept))
	run("other", "test ! -e file")
	if log, err := one.script(t, "test -e file"); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	if err := one.Close(t.Context()); err != nil {
		t.Error(err)
	}

	hostile := p.start(t, s.keptJob("hostile", kept))
	log, err := hostile.script(t, leaveMess)
	t.Logf("%v\n%s", err, log)
	if err := hostile.Close(t.Context()); err != nil {
		t.Error(err)
	}
	next := p.start(t, s.keptJob("next", kept))
	l := next.Layout()
	if log, err := next.script(t, `set -e; test ! -L "$CI_PROJECT_DIR"; test -d "$CI_PROJECT_DIR"; test -z "$(ls -A "$TEMP_DIR")"; ls -ld "$TEMP_DIR" | grep '^drwx------'`); err != nil {
		t.Errorf("what a hostile job left: %v\n%s", err, log)
	}
	if err := next.Send(t.Context(), l.Temp+"/tree", pack(t, []entry{{'0', "file", "", 0o644, "mine"}, {'5', "folder/", "", 0o755, ""}, {'0', "folder/b", "", 0o644, "b"}})); err != nil {
		t.Fatal(err)
	}
	request := next.request("checkout", "")
	request.Text = "- step: builtin://git/checkout\n  inputs: {work_tree: \"" + l.Temp + "/tree\"}\n"
	var said bytes.Buffer
	if _, err := next.client.Execute(t.Context(), request, &said); err != nil || strings.Contains(said.String(), "HOOKED") {
		t.Errorf("the checkout ends with %v\n%s", err, said.String())
	}
	if log, err := next.script(t, `test "$(cat file)" = mine && test ! -L file && test "$(ls -A . | tr '\n' ' ')" = "file folder "`); err != nil {
		t.Errorf("after the checkout: %v\n%s", err, log)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
