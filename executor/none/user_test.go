//go:build unix

package none

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/executor/host/local"
)

// asUser is the variable that tells a test binary that is started again whose jobs it runs.
const asUser = "RUNG_TEST_USER"

// levelAs is the level with jobs of another user, who can enter the folders of the suite.
func levelAs(user string) executortest.Level {
	l := level()
	l.Job = func(id string) *executor.Job { return &executor.Job{ID: id, ProjectName: "project", User: user} }
	l.Open = func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
		if err := errors.Join(os.Chmod(filepath.Dir(setup.Temp), 0o711), os.Chmod(setup.Temp, 0o777)); err != nil {
			return nil, err
		}
		return New(ctx, setup, Options{})
	}
	return l
}

// other is a user that every system has, and that is not this one.
func other(t *testing.T) *user.User {
	t.Helper()
	nobody, err := user.Lookup("nobody")
	if err != nil || !local.CanBeOthers() {
		enginetest.Skip(t, "root, and a user called nobody")
	}
	return nobody
}

func TestConformanceAsAnotherUser(t *testing.T) {
	nobody := other(t)
	t.Setenv(asUser, nobody.Username)
	executortest.Run(t, levelAs(nobody.Username))
}

// A runner asks before it takes jobs.
func TestWhatJobsCouldNotHaveIsKnownBeforeThem(t *testing.T) {
	nobody := other(t)
	dir, err := os.MkdirTemp("", "rung-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l := levelAs("")
	e, err := l.New(dir, executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	open, closed, file := filepath.Join(dir, "open"), filepath.Join(dir, "closed"), filepath.Join(dir, "file")
	err = errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.Mkdir(closed, 0o755), os.WriteFile(file, nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, user, root, want string
	}{
		{"this user", "", closed, ""},
		{"a folder that is a file", "", filepath.Join(file, "builds"), "can have no folders in " + filepath.Join(file, "builds")},
		{"another user", nobody.Username, open, ""},
		{"another user's folder", nobody.Username, closed, "can have no folders in " + closed},
		{"another user's new folder", nobody.Username, filepath.Join(closed, "builds"), "can have no folders in " + filepath.Join(closed, "builds")},
		{"nobody's user", "rung-nobody-has-this-name", open, `there is no user "rung-nobody-has-this-name"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := e.(executor.Prober).Probe(t.Context(), &executor.Job{User: c.user, Root: c.root})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if left, err := os.ReadDir(open); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestAJobIsItsUsers(t *testing.T) {
	nobody := other(t)
	t.Setenv("RUNG_TEST_SECRET", "of root")
	l := levelAs("")
	dir, err := os.MkdirTemp("", "rung-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	e, err := l.New(dir, executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	env, err := e.Prepare(t.Context(), &executor.Job{ID: "theirs", ProjectName: "shop", User: nobody.Uid}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	log, failure := executortest.Script(t, env, `id -u; id -g; touch "$PWD/mine" "$HOME/mine"; stat -c %u . "$HOME" "$TEMP_DIR"; echo "secret: $RUNG_TEST_SECRET"; tr '\0' '\n' </proc/$PPID/environ | grep SECRET; cat /etc/shadow; true`)
	want := strings.Join([]string{nobody.Uid, nobody.Gid, nobody.Uid, nobody.Uid, nobody.Uid, "secret: "}, "\n") + "\n"
	if failure != nil || !strings.HasPrefix(log, want) || strings.Contains(log, "root:") || strings.Contains(log, "of root") {
		t.Errorf("%v\n%s", failure, log)
	}
	if env.Layout().Shared {
		t.Error("files must go through the user, and the layout says that they need not")
	}
}

func TestAUserThatDoesNotExistIsTheJobsMistake(t *testing.T) {
	other(t)
	e := open(t)
	_, err := e.Prepare(t.Context(), &executor.Job{ID: "nobodys", ProjectName: "shop", User: "no-such-user"}, nil)
	var mistake *executor.UserError
	if !errors.As(err, &mistake) || !strings.Contains(err.Error(), "useradd") {
		t.Errorf("the error is %v", err)
	}
}

func TestFilesAreSentWithTheRightsOfTheUser(t *testing.T) {
	nobody := other(t)
	l := levelAs(nobody.Username)
	dir, err := os.MkdirTemp("", "rung-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	e, err := l.New(dir, executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	env, err := e.Prepare(t.Context(), l.Job("hostile"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = env.Close(context.Background()) }()
	private := t.TempDir() // root's
	if log, failure := executortest.Script(t, env, "ln -s "+private+" in"); failure != nil {
		t.Fatalf("%v\n%s", failure, log)
	}
	if err := env.Send(t.Context(), env.Layout().Project+"/in", executortest.Archive(t, "file", "text")); err == nil {
		t.Error("it is sent to where only root may write")
	}
	if left, _ := os.ReadDir(private); len(left) > 0 {
		t.Errorf("written: %v", left)
	}
}
