package container_test

import (
	"errors"
	"path/filepath"
	"slices"
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

func TestFilesOfOthersInAKeptProjectAreTheNextJobs(t *testing.T) {
	for user, left := range map[string]string{"worker": "0:0", "": "1234:1234"} {
		t.Run("user "+user, func(t *testing.T) { othersFiles(t, user, left) })
	}
}

// othersFiles leaves a kept project to somebody else, with a mode that nobody can use.
func othersFiles(t *testing.T, user, left string) {
	enginetest.Busybox(t)
	o := options(t.TempDir())
	e, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run := func(do func(executor.Environment)) {
		j := job("rooted")
		j.KeepProject, j.User = "rooted", user
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
			"sh", "-c", "cd /builds/project && mkdir -p a/b && echo x >a/b/file && chmod 400 a/b/file && chmod 500 a/b a && ln -s /etc/passwd link && chmod 000 . && chown " + left + " ."}})
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
		sh(t, env, "cd /builds/project && test -f a/b/file && rm -r a link && test -z \"$(ls -A)\" && test $(stat -c %u:%g /etc/passwd) = 0:0 && test $(stat -c %u:%a .) = $(id -u):755")
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

func TestAKeptProjectIsInAFolderOfTheMachineThatIsNamed(t *testing.T) {
	enginetest.Busybox(t)
	folder := t.TempDir()
	o := options(t.TempDir())
	o.Volumes.Kept = []string{"/cache"}
	e, err := o.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	begin := func(id, name string) executor.Environment {
		j := job(id)
		j.KeepProject, j.KeepVolumes, j.Root = name, name, folder
		env, err := e.Prepare(t.Context(), j, nil)
		if err != nil {
			t.Fatal(err)
		}
		return env
	}
	const look = "cat kept /cache/kept 2>/dev/null; echo project >kept; echo cache >/cache/kept"
	first := begin("first", "mine")
	if got := sh(t, first, look); got != "" {
		t.Errorf("the first finds %q", got)
	}
	second := begin("second", "other")
	third := begin("third", "mine") // at once
	if got := sh(t, second, look); got != "" {
		t.Errorf("one of another name finds %q", got)
	}
	if got := sh(t, third, "cat kept 2>/dev/null; true"); got != "" {
		t.Errorf("one at the same time finds %q in its project", got)
	}
	for _, env := range []executor.Environment{first, second, third} {
		if err := env.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	again := begin("again", "mine")
	if got := sh(t, again, look); got != "project\ncache\n" {
		t.Errorf("the next finds %q", got)
	}
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if all, err := e.Kept(t.Context()); err != nil || slices.ContainsFunc(all, func(k executor.KeptProject) bool { return k.Name == "mine" || k.Name == "other" }) {
		t.Errorf("the engine keeps %+v, %v", all, err)
	}
	found, err := filepath.Glob(filepath.Join(folder, "rung-*"))
	if err != nil || len(found) != 5 {
		t.Errorf("in the folder there are %q, %v", found, err)
	}
}
