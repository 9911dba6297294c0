//go:build unix

package manager_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
)

// TestATokenThatWasIssuedIsNotLostWithTheProcess is about a process that ends between GitLab's answer and the writing of the configuration.
func TestATokenThatWasIssuedIsNotLostWithTheProcess(t *testing.T) {
	w := newWorld(t)
	c := w.configure("concurrent = 1", "")
	r := &c.Runners[0]
	open := func() *manager.Manager {
		m, err := manager.New(manager.Options{Config: c, SystemID: "s_0123456789ab", State: filepath.Join(w.dir, "state"), Version: "1",
			Open: func(context.Context, *config.Runner, executor.Level, executor.Setup) (executor.Executor, error) {
				return nil, errors.New("there are no levels in this test")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	ended, end := context.WithCancel(t.Context())
	end()
	finish := func(m *manager.Manager) { // as a process that ends
		m.Drain()
		if err := m.Run(ended); err != nil {
			t.Fatal(err)
		}
	}
	first := open()
	if next, err := first.Rotated(r); next != nil || err != nil {
		t.Fatal("nothing was issued:", next, err)
	}
	issued := config.Token{Token: "glrt-the-new-one", Obtained: time.Now().UTC(), Expires: time.Now().Add(time.Hour).UTC()}
	if err := first.Rotating(r, issued); err != nil {
		t.Fatal(err)
	}
	finish(first)
	second := open()
	next, err := second.Rotated(r)
	if err != nil || next == nil || next.Token != issued.Token || !next.Expires.Equal(issued.Expires) {
		t.Fatal("the next process does not know it:", next, err)
	}
	finish(second)
	r.Token = issued.Token // the configuration has it
	third := open()
	defer finish(third)
	if next, err := third.Rotated(r); next != nil || err != nil {
		t.Error("it is still on its way:", next, err)
	}
}

func TestARunnerGoesOnWithItsNewToken(t *testing.T) {
	w := newWorld(t)
	c := w.configure("concurrent = 2\ncheck_interval = 1", "")
	w.start(c)
	if r := w.result(w.server.Enqueue(script("true"))); r.State != gitlab.Success {
		t.Fatal(r.Log)
	}
	api, err := gitlab.New(gitlab.Options{URL: w.url})
	if err != nil {
		t.Fatal(err)
	}
	running := w.server.Enqueue(script("sleep 2"))
	known, err := api.ResetToken(t.Context(), gitlab.Runner{Token: w.tokens[0]})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.manager.Rotating(&c.Runners[0], config.Token{Token: known.Token}); err != nil {
		t.Fatal(err)
	}
	w.tokens[0] = known.Token
	if err := w.manager.Reload(t.Context(), w.configure("concurrent = 2\ncheck_interval = 1", "")); err != nil {
		t.Fatal(err)
	}
	if entries := w.manager.State().Entries; len(entries) != 1 || entries[0].Token != config.Short(known.Token) {
		t.Errorf("%+v", entries)
	}
	if r := w.result(w.server.Enqueue(script("true"))); r.State != gitlab.Success {
		t.Error(r.Log)
	}
	if r := w.result(running); r.State != gitlab.Success {
		t.Error(r.Log)
	}
}

// TestANewTokenIsUsedBeforeTheConfigurationHasIt is about a file that cannot be written: GitLab accepts the new token alone.
func TestANewTokenIsUsedBeforeTheConfigurationHasIt(t *testing.T) {
	w := newWorld(t)
	const settings = "concurrent = 2\ncheck_interval = 1"
	c := w.configure(settings, "")
	r := &c.Runners[0]
	w.start(c)
	running := w.server.Enqueue(script("echo begun", "sleep 3"))
	if err := running.WaitLog(t.Context(), "begun"); err != nil {
		t.Fatal(err)
	}
	api, err := gitlab.New(gitlab.Options{URL: w.url})
	if err != nil {
		t.Fatal(err)
	}
	known, err := api.ResetToken(t.Context(), gitlab.Runner{Token: w.tokens[0]})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.manager.Rotating(r, config.Token{Token: known.Token, Obtained: time.Now()}); err != nil {
		t.Fatal(err)
	}
	works := func(when string) {
		t.Helper()
		if result := w.result(w.server.Enqueue(script("true"))); result.State != gitlab.Success {
			t.Errorf("%s, a job is %s\n%s", when, result.State, result.Log)
		}
		entries := w.manager.State().Entries
		if len(entries) != 1 || entries[0].Token != config.Short(known.Token) {
			t.Errorf("%s: %+v", when, entries)
		}
	}
	works("at once")
	if err := w.manager.Reload(t.Context(), w.configure(settings, "")); err != nil {
		t.Fatal(err)
	}
	works("when the file was read again")
	w.manager.Drain()
	w.wait()
	if result := w.result(running); result.State != gitlab.Success {
		t.Errorf("the job that ran is %s\n%s", result.State, result.Log)
	}
	w.start(w.configure(settings, ""))
	works("in the next process")
	if err := w.manager.Reload(t.Context(), w.configure(settings, "")); err != nil {
		t.Fatal(err)
	}
	works("when that has read the file again")
	if next, err := w.manager.Rotated(r); err != nil || next == nil || next.Token != known.Token {
		t.Errorf("there is no token to write: %v, %v", next, err)
	}
	w.tokens[0] = known.Token
	if err := w.manager.Reload(t.Context(), w.configure(settings, "")); err != nil {
		t.Fatal(err)
	}
	works("when the file has it")
	if next, err := w.manager.Rotated(&config.Runner{Token: known.Token}); err != nil || next != nil {
		t.Errorf("it is still to be written: %v, %v", next, err)
	}
}
