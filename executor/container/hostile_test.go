package container_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/archive"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
	stepclient "github.com/rungci/rung/steps/service/client"
)

// forgedImage is an image in which PATH leads to programs that only say that they were run.
const forgedImage = "rung-test/forged-path:1"

func TestProgramsThatAnImageHasFirstInPATHAreNotUsedByTheHost(t *testing.T) {
	enginetest.Busybox(t)
	const said = "/tmp/forged"
	files := []enginetest.File{
		{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"}, {Name: "tmp/", Mode: 0o1777},
		{Name: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0::/:/bin/sh\nworker:x:1000:1000::/home:/bin/sh\n")},
	}
	for _, name := range append(enginetest.Applets(t), "step-runner", "rung") {
		files = append(files, enginetest.File{Name: "forged/" + name, Mode: 0o755, Content: []byte("#!/bin/busybox sh\n/bin/busybox echo \"$0 $*\" >>" + said + "\n")})
	}
	enginetest.Import(t, enginetest.Client(t), forgedImage, files, "ENV PATH=/forged:/bin")
	for _, user := range []string{"root", "worker"} {
		t.Run(user, func(t *testing.T) {
			o := options(t.TempDir())
			e, err := o.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			j := job("forged-path-" + user)
			j.Image.Name, j.Image.PullPolicies, j.User, j.KeepProject = forgedImage, []string{container.Never}, user, "forged-path-"+user
			t.Cleanup(func() { forget(t, o, j.KeepProject) })
			env, err := e.Prepare(t.Context(), j, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer env.Close(t.Context())
			tree := t.TempDir()
			if err := os.WriteFile(filepath.Join(tree, "file"), []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
			l := env.Layout()
			if err := session.SendTree(t.Context(), env, l.Temp+"/tree", tree, t.TempDir(), false); err != nil {
				t.Error(err)
			}
			end := &ending{}
			err = session.Run(t.Context(), nil, env, stepclient.Request{
				ID: "run", WorkDir: l.Project, Env: session.BaseEnv(l),
				Text: "- step: builtin://git/checkout\n  inputs: {work_tree: \"" + l.Temp + "/tree\"}\n",
			}, end)
			if err != nil || end.status != event.Success {
				t.Errorf("the checkout ends with %q, %v", end.status, err)
			}
			to := filepath.Join(t.TempDir(), "file")
			if err := session.Fetch(t.Context(), env, l.Project+"/file", to); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(to); err != nil || string(text) != "mine" {
				t.Errorf("fetched is %q, %v", text, err)
			}
			if err := env.Check(t.Context()); err != nil {
				t.Error(err)
			}
			var out bytes.Buffer
			if err := env.Fetch(t.Context(), said, &out); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("programs of the image were run: %v\n%s", err, out.String())
			}
			if _, err := env.Shell(t.Context(), &executor.Shell{Args: []string{"cat"}}); err != nil { // a person's command is
				t.Error(err)
			}
			if err := env.Fetch(t.Context(), said, io.Discard); err != nil {
				t.Errorf("the test finds out nothing: %v", err)
			}
		})
	}
}

// forget removes the kept project folders of a name.
func forget(t *testing.T, o settings, name string) {
	t.Helper()
	ctx := context.Background() // after the test
	e, err := o.open(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	defer e.Close()
	all, err := e.Kept(ctx)
	for _, one := range all {
		if one.Name == name {
			err = errors.Join(err, e.Forget(ctx, one.Place))
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestMoreSmallFilesThanAllowedAreNotFetched(t *testing.T) {
	enginetest.Busybox(t)
	bounds := archive.Limits{Bytes: session.Allowance.Bytes, Entries: 1000}
	env, _ := open(t, options(t.TempDir()), job("many"))
	from := env.Layout().Project + "/many"
	sh(t, env, `mkdir many few; n=0; while [ $n -lt 500 ]; do : >few/$n; : >many/$n; n=$((n+1)); done
		while [ $n -lt 1500 ]; do : >many/$n; n=$((n+1)); done`)
	to := filepath.Join(t.TempDir(), "many")
	err := session.FetchWithin(t.Context(), env, from, to, bounds)
	if wrong := session.AsError(t.Context(), err); wrong == nil || wrong.Kind != event.ErrorDefinition {
		t.Errorf("fetching ends with %v", err)
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is something where it was to be: %v", err)
	}
	to = filepath.Join(t.TempDir(), "few")
	if err := session.FetchWithin(t.Context(), env, env.Layout().Project+"/few", to, bounds); err != nil {
		t.Errorf("within the limit: %v", err)
	}
	if few, err := os.ReadDir(to); err != nil || len(few) != 500 {
		t.Errorf("fetched are %d files, %v", len(few), err)
	}
}
