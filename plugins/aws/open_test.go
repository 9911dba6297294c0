package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
)

// lines is what a group logs.
type lines struct {
	mu  sync.Mutex
	all []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p...)
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.all)
}

var _ io.Writer = (*lines)(nil)

// opened is a group as callers see it, with what it is made of.
type opened struct {
	*group.Group
	own *Group
	log *lines
}

// tryOpen opens a group.
func tryOpen(t testing.TB, o Options, settings group.Settings) (opened, error) {
	t.Helper()
	g := opened{own: &Group{Options: o}, log: &lines{}}
	g.Group = group.Adapt(g.own)
	if settings.Owner == "" {
		settings.Owner = "us"
	}
	_, err := g.Init(t.Context(), hclog.New(&hclog.LoggerOptions{Output: g.log, Level: hclog.Debug}), settings)
	if err == nil {
		g.own.api.limiter.Pause = time.Millisecond
		t.Cleanup(func() { _ = g.Shutdown(t.Context()) })
	}
	return g, err
}

func open(t testing.TB, o Options) opened {
	t.Helper()
	g, err := tryOpen(t, o, group.Settings{})
	if err != nil {
		t.Fatal("Init:", err)
	}
	return g
}

// create makes machines.
func (g opened) create(t testing.TB, r group.Request) []string {
	t.Helper()
	created, err := g.Create(t.Context(), r)
	if err != nil || created.Count != r.Count {
		t.Fatalf("Create(%+v): %+v, %v", r, created, err)
	}
	return created.Instances
}

// list has the machines that exist, by id.
func (g opened) list(t testing.TB) map[string]group.Instance {
	t.Helper()
	all, err := g.List(t.Context())
	if err != nil {
		t.Fatal("List:", err)
	}
	out := map[string]group.Instance{}
	for _, i := range all {
		if i.State.Exists() {
			out[i.ID] = i
		}
	}
	return out
}

// one is the only machine of a list.
func one(t testing.TB, all map[string]group.Instance) group.Instance {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("there are %d machines, want one: %v", len(all), all)
	}
	for _, i := range all {
		return i
	}
	panic("unreachable")
}

// running are the machines of the account that are not terminated, whoever's they are.
func (c *cloud) running(t testing.TB) (ids []string) {
	t.Helper()
	all, err := c.api.describe(t.Context(), describeAll())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if m := machineOf(i); m.State.Exists() {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// wants fails the test when an error is not of a kind.
func wants(t testing.TB, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want an error that is %q", what, err, kind)
	}
}

func request(n int, count int) group.Request {
	return group.Request{ID: fmt.Sprint("request-", n), Count: count}
}

// contextThatEnds is a context that ends when something has happened.
func contextThatEnds(t testing.TB, when func() bool) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !when() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	return ctx, cancel
}

// forwardForm is moto's answer to a call with another form.
func (c *cloud) forwardForm(t testing.TB, call apiCall) answer {
	t.Helper()
	body := call.form.Encode()
	r, err := http.NewRequest(http.MethodPost, "/", nil)
	if err != nil {
		t.Error(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIATEST/20260302/eu-west-1/"+call.service+"/aws4_request, SignedHeaders=host, Signature=test")
	r.Host = c.server.Listener.Addr().String()
	return c.forward(r, []byte(body))
}
