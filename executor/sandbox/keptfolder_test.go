//go:build unix

package sandbox_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/executortest/storertest"
	"github.com/rungci/rung/executor/sandbox"
	"github.com/rungci/rung/executor/sandbox/direct"
	"github.com/rungci/rung/executor/usage"
	"github.com/rungci/rung/steps/containers"
)

// keeper makes sandboxes without an engine that keep folders in a cache of the test's own.
type keeper struct {
	*sandbox.Executor
	cache string
}

// keeps makes a keeper, with volumes at some places.
func keeps(t *testing.T, v container.Volumes) keeper {
	t.Helper()
	alone(t)
	return keepsIn(t, filepath.Join(t.TempDir(), "sandbox"), v, usage.New(t.TempDir()))
}

func keepsIn(t *testing.T, cache string, v container.Volumes, book *usage.Book) keeper {
	t.Helper()
	e, err := sandbox.New(t.Context(), executor.Setup{State: t.TempDir(), Uses: book, Program: func(string, string) (string, error) { return executortest.Program() }}, sandbox.Options{
		Way: sandbox.Directly, Container: container.Options{Volumes: v}, Direct: direct.Options{Saved: os.Getenv(imagesVariable), Cache: cache},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return keeper{e, cache}
}

// begin begins a job and runs a script in it, which succeeds. The job goes on until done is called.
func (k keeper) begin(t *testing.T, ask func(*executor.Job), script string) (log string, done func()) {
	t.Helper()
	j := job("job")
	ask(j)
	env, err := k.Prepare(t.Context(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	code, err := env.Shell(t.Context(), &executor.Shell{Args: []string{"sh", "-ec", script}, Stdout: &said, Stderr: &said})
	if err != nil || code != 0 {
		t.Errorf("%q ends with %d, %v\n%s", script, code, err, &said)
	}
	return said.String(), func() {
		if err := env.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// run runs a job with a script.
func (k keeper) run(t *testing.T, ask func(*executor.Job), script string) string {
	t.Helper()
	log, done := k.begin(t, ask, script)
	done()
	return log
}

func shop(j *executor.Job) { j.KeepProject = "shop" }

// victim is a folder that jobs must not reach, and fails the test if one has.
func victim(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		after, err := os.Stat(dir)
		if err != nil || after.Mode() != before.Mode() || owner(after) != owner(before) {
			t.Errorf("a folder of the machine is %v, %v", after, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("in a folder of the machine are %v, %v", left, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "secret")); err != nil || string(text) != "secret" {
			t.Errorf("a file of the machine has %q, %v", text, err)
		}
	})
	return dir
}

func TestFoldersThatSandboxesKeepAreStored(t *testing.T) {
	project, volume := func(j *executor.Job, name string) { j.KeepProject = name }, func(j *executor.Job, name string) { j.KeepVolumes = name }
	for name, c := range map[string]struct {
		kind    string
		ask     func(*executor.Job, string)
		volumes container.Volumes
	}{
		"project":             {executor.StoredProject, project, container.Volumes{}},
		"volume":              {executor.StoredVolume, volume, container.Volumes{Kept: []string{"/cache"}}},
		"volume in cache_dir": {executor.StoredVolume, volume, container.Volumes{Kept: []string{"/cache"}, Folder: t.TempDir()}},
	} {
		t.Run(name, func(t *testing.T) {
			kind, ask, volumes := c.kind, c.ask, c.volumes
			k := keeps(t, volumes)
			base := cmp.Or(volumes.Folder, filepath.Join(k.cache, kind+"s"))
			other := keepsIn(t, k.cache, volumes, nil)
			storertest.Run(t, storertest.Case{
				Storer: k, Kind: kind,
				Use: func(number int) func() {
					_, done := k.begin(t, func(j *executor.Job) { ask(j, fmt.Sprintf("own-%d", number)) }, "[ ! -d /cache ] || cd /cache; echo content >file")
					return done
				},
				Foreign: func() (executor.Stored, func() bool) {
					other.run(t, func(j *executor.Job) { ask(j, "theirs") }, "true")
					found, err := filepath.Glob(filepath.Join(base, "theirs*[!y]"))
					if err != nil || len(found) != 1 {
						t.Fatalf("%q, %v", found, err)
					}
					return executor.Stored{Kind: kind, Place: k.cache, ID: found[0], Name: found[0]}, func() bool {
						_, err := os.Stat(found[0])
						return err == nil
					}
				},
			})
			stock, err := k.Stored(t.Context())
			if err != nil || len(stock.Things) == 0 || stock.Things[0].Folder != base {
				t.Errorf("%+v, %v", stock, err)
			}
		})
	}
}

func TestAFolderThatAnotherProgramHasIsNotRemoved(t *testing.T) {
	k := keeps(t, container.Volumes{})
	k.run(t, shop, "true")
	_, done := keepsIn(t, k.cache, container.Volumes{}, nil).begin(t, shop, "true")
	stock, err := k.Stored(t.Context())
	if err != nil || len(stock.Things) != 1 || !stock.Things[0].InUse {
		t.Fatalf("%+v, %v", stock, err)
	}
	if err := k.Discard(t.Context(), stock.Things[0]); !errors.Is(err, usage.ErrInUse) {
		t.Errorf("it is removed: %v", err)
	}
	done()
	if err := k.Discard(t.Context(), stock.Things[0]); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(k.cache, "*", "*")); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

func TestALinkInPlaceOfAKeptFolderIsNotFollowed(t *testing.T) {
	for _, name := range []string{"shop.0", "shop.0/project", "shop.0.busy"} {
		k, outside := keeps(t, container.Volumes{}), victim(t)
		root, to := t.TempDir(), outside
		if name == "shop.0.busy" {
			to = filepath.Join(outside, "secret")
		}
		at := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(to, at)); err != nil {
			t.Fatal(err)
		}
		ask := func(j *executor.Job) { j.Root, j.KeepProject = root, "shop" }
		k.run(t, ask, "test -z \"$(ls -A .)\"; echo mine >file")
		k.run(t, ask, "grep mine file")
	}
}

func TestWhatRootLeavesInAKeptProjectIsTheNextJobsAndNothingElseIs(t *testing.T) {
	k, secret := keeps(t, container.Volumes{}), victim(t)
	k.run(t, shop, fmt.Sprintf("mkdir -p ro/below; echo x >ro/below/file; chmod 500 ro/below ro; chown -R 0:0 .; ln -s %s out; ln -s %[1]s/secret file; chmod 000 .; cat file && exit 1; true", secret))
	as := func(j *executor.Job) {
		j.KeepProject = "shop"
		j.Image.User = "1000:1000"
	}
	k.run(t, as, "test -L out; ls out/ && exit 1; cat file && exit 1; rm -rf ro out file; test ! -e ro; touch mine")
	k.run(t, shop, "test \"$(stat -c %u mine)\" = 1000")
}

func TestKeptFoldersLeaveNoTraceInTheImage(t *testing.T) {
	k := keeps(t, container.Volumes{Kept: []string{"/builds/deep/cache"}})
	k.run(t, func(j *executor.Job) { j.KeepProject, j.KeepVolumes = "shop", "shop" }, "touch ../beside /builds/deep/cache/file")
	k.run(t, shop, "test ! -e ../beside")
	if found, err := os.ReadDir(filepath.Join(os.Getenv(imagesVariable), enginetest.Image, "builds")); err != nil || len(found) > 0 {
		t.Errorf("in the image are %v, %v", found, err)
	}
}

func TestKeptVolumesOfASandbox(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		kept          bool
		user          string
		folder        bool
	}{
		"are the next job's":                     {first: "p1", second: "p1", kept: true},
		"are those of another user":              {first: "p1", second: "p1", kept: true, user: "1000"},
		"are in the operator's folder":           {first: "p1", second: "p1", kept: true, folder: true},
		"are not another project's":              {first: "p1", second: "p2"},
		"go with the job if nothing is kept":     {},
		"go with the job, and to no folder then": {folder: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := container.Volumes{Kept: []string{"/cache", "/deep/$PLACE"}}
			if c.folder {
				v.Folder = t.TempDir()
			}
			k := keeps(t, v)
			for i, keep := range []string{c.first, c.second} {
				ask := func(j *executor.Job) {
					j.KeepVolumes, j.Variables = keep, map[string]string{"PLACE": "er"}
					if i == 1 {
						j.Image.User = c.user
					}
				}
				want := ""
				if i == 1 && c.kept {
					want = "mine"
				}
				if got := k.run(t, ask, "cat /cache/x /deep/er/x 2>/dev/null || true; printf mi >/cache/x; printf ne >/deep/er/x"); got != want {
					t.Errorf("job %d: %q, want %q", i, got, want)
				}
			}
			if found, _ := os.ReadDir(v.Folder); (len(found) > 0) != (c.folder && c.kept) {
				t.Errorf("in the operator's folder are %v", found)
			}
		})
	}
	t.Run("are its services', too", func(t *testing.T) {
		enginetest.Program(t, "ip")
		k := keeps(t, container.Volumes{Kept: []string{"/cache"}})
		log := k.run(t, func(j *executor.Job) {
			j.KeepProject, j.KeepVolumes = "shop", "shop"
			s := containers.Service{Image: *j.Image, Aliases: []string{"db"}, Variables: map[string]string{"HEALTHCHECK_TCP_PORT": "80"}}
			s.Entrypoint, s.Command = []string{"sh", "-c"}, []string{"ls /builds >/cache/x; echo end >>/cache/x; exec nc -ll -p 80 -e true"}
			j.Services = []containers.Service{s}
		}, "cat /cache/x")
		if log != "end\n" {
			t.Errorf("the service writes %q, and must not see the project", log)
		}
	})
}

func TestTheRootOfAJobHasWhatItKeeps(t *testing.T) {
	k, root := keeps(t, container.Volumes{Kept: []string{"/cache"}, Folder: t.TempDir()}), t.TempDir()
	ask := func(j *executor.Job) { j.Root, j.KeepProject, j.KeepVolumes = root, "shop", "shop" }
	k.run(t, ask, "echo mine >file; echo ours >/cache/file")
	k.run(t, ask, "grep mine file; grep ours /cache/file")
	if found, _ := filepath.Glob(filepath.Join(root, "*", "*", "file")); len(found) != 2 {
		t.Errorf("in the folder are %q", found)
	}
	if found, err := os.ReadDir(k.cache); len(found) > 0 {
		t.Errorf("elsewhere are %v, %v", found, err)
	}
	if stock, err := k.Stored(t.Context()); err != nil || len(stock.Things) > 0 {
		t.Errorf("what its owner removes is listed: %+v, %v", stock, err)
	}
}

func TestASandboxIsRefusedWhatItsKeptFoldersCannotHave(t *testing.T) {
	for want, c := range map[string]struct {
		kept []string
		ask  func(*executor.Job)
	}{
		"a limit of disk space with a project folder": {ask: func(j *executor.Job) { j.KeepProject, j.Resources.Disk = "shop", 1<<20 }},
		"a limit of disk space with volumes":          {kept: []string{"/cache"}, ask: func(j *executor.Job) { j.Resources.Disk = 1 << 20 }},
		"/cache/deep, within /cache":                  {kept: []string{"/cache", "/cache/deep"}, ask: func(*executor.Job) {}},
		"/builds/project/dir, within /builds/project": {kept: []string{"/builds/project/dir"}, ask: shop},
		"the step-runner is in":                       {kept: []string{"/opt"}, ask: func(*executor.Job) {}},
	} {
		k, j := keeps(t, container.Volumes{Kept: c.kept}), job("job")
		c.ask(j)
		if _, err := k.Prepare(t.Context(), j, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// owner is who has a file.
func owner(info os.FileInfo) [2]uint32 {
	it := info.Sys().(*syscall.Stat_t)
	return [2]uint32{it.Uid, it.Gid}
}
