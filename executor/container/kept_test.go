package container_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/enginetest"
)

func TestAKeptProjectIsListedAndRemovedUnlessAJobHasIt(t *testing.T) {
	enginetest.Busybox(t)
	o := options(t.TempDir())
	e, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	places := func() (found []string) {
		all, err := e.Kept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if one.Name == "listed" {
				found = append(found, one.Place)
			}
		}
		return found
	}
	j := job("listed")
	j.KeepProject = "listed"
	env, err := e.Prepare(t.Context(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := places()
	if len(kept) != 1 {
		t.Fatalf("kept are %q", kept)
	}
	if err := e.Forget(t.Context(), kept[0]); !errors.Is(err, executor.ErrInUse) {
		t.Errorf("while a job has it, it is removed: %v", err)
	}
	if err := env.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Forget(t.Context(), "somebody-elses"); err == nil {
		t.Error("a volume that is no kept project is removed")
	}
	if err := e.Forget(t.Context(), kept[0]); err != nil || len(places()) > 0 {
		t.Errorf("%v, kept are %q", err, places())
	}
}

func TestFilesOfRootInAKeptProjectAreTheNextJobs(t *testing.T) {
	enginetest.Busybox(t)
	o := options(t.TempDir())
	e, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run := func(do func(executor.Environment)) {
		j := job("rooted")
		j.KeepProject, j.User = "rooted", "worker"
		env, err := e.Prepare(t.Context(), j, nil)
		if err != nil {
			t.Fatal(err)
		}
		do(env)
		if err := env.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	c := enginetest.Client(t)
	run(func(env executor.Environment) {
		made, err := c.ExecCreate(t.Context(), env.Layout().Name, client.ExecCreateOptions{User: "0", AttachStdout: true, Cmd: []string{
			"sh", "-c", "cd /builds/project && mkdir -p a/b && echo x >a/b/file && chmod 400 a/b/file && chmod 500 a/b a && ln -s /etc/passwd link && chmod 000 . && chown 0:0 ."}})
		if err != nil {
			t.Fatal(err)
		}
		stream, err := c.ExecAttach(t.Context(), made.ID, client.ExecAttachOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		var out strings.Builder
		buffer := make([]byte, 1024)
		for err == nil {
			var n int
			n, err = stream.Reader.Read(buffer)
			out.Write(buffer[:n])
		}
		if out.Len() > 0 {
			t.Error(out.String())
		}
	})
	run(func(env executor.Environment) {
		sh(t, env, "cd /builds/project && test -f a/b/file && rm -r a link && test -z \"$(ls -A)\" && test $(stat -c %u:%g /etc/passwd) = 0:0")
	})
	all, err := e.Kept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Name == "rooted" {
			if err := e.Forget(t.Context(), one.Place); err != nil {
				t.Error(err)
			}
		}
	}
}
