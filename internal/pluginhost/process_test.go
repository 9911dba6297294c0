//go:build unix

package pluginhost

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var tests = &Kind{Name: "test plugin", Prefix: "test-plugin-", Services: map[int]string{1: "test.v1.Test"}}

// script is a program, and where it is.
func script(t *testing.T, lines ...string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+strings.Join(lines, "\n")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func config(env ...string) *Config {
	return &Config{Name: "one", Env: env, Log: slog.New(slog.DiscardHandler)}
}

// It may be given up at any moment of its start. The race detector judges it, too.
func TestAPluginWhoseStartIsGivenUpDoesNotStay(t *testing.T) {
	file, pids := script(t, `echo >"$PIDS/$$"`, `exec sleep 600`), t.TempDir()
	var starts sync.WaitGroup
	for n := range 40 {
		starts.Go(func() {
			ctx, giveUp := context.WithTimeout(t.Context(), time.Duration(n)*250*time.Microsecond)
			defer giveUp()
			if p, err := tests.Start(ctx, config("PIDS="+pids), file); err == nil {
				t.Errorf("it is taken for a plugin: %v", p)
			}
		})
	}
	starts.Wait()
	lives := func() (pid int) {
		files, _ := filepath.Glob(filepath.Join(pids, "*"))
		for _, file := range files {
			if pid, _ := strconv.Atoi(filepath.Base(file)); !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				return pid
			}
		}
		return 0
	}
	for until := time.Now().Add(time.Minute); lives() != 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("process %d is still there", lives())
		}
	}
}

// Another process that starts at this time may have the file open for a moment.
func TestAPluginThatWasJustWrittenStarts(t *testing.T) {
	file := script(t, "echo it has begun")
	open, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { open.Close() })
	if _, err = tests.Start(t.Context(), config(), file); err == nil || !strings.Contains(err.Error(), "it has begun") {
		t.Errorf("the error is %v", err)
	}
}
