package service_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/toolkit/github/service"
)

func TestAnotherProcessServesTheSameJob(t *testing.T) {
	t.Parallel()
	opts := options(t)
	first, err := service.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	opts.Saved, err = first.Save()
	if err != nil {
		t.Fatal(err)
	}
	env := first.Env(true, nil)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	c := start(t, opts)
	if c.server.Token() != first.Token() || c.runtime != env["ACTIONS_RUNTIME_TOKEN"] {
		t.Error("the tokens are others")
	}
	if c.base+"/" != env["ACTIONS_RUNTIME_URL"] {
		t.Logf("another program has taken %s", env["ACTIONS_RUNTIME_URL"])
	}
	if got := c.send(http.MethodGet, c.base+"/_apis/artifactcache/caches?key=a", nil, "Authorization: Bearer "+env["ACTIONS_RUNTIME_TOKEN"]); got.status != http.StatusOK {
		t.Errorf("the token of before opens nothing: %d %s", got.status, got.body)
	}
}

func TestAServerIsNotSavedInTheMiddleOfAnUpload(t *testing.T) {
	t.Parallel()
	c := start(t, options(t))
	c.twirp("CacheService/CreateCacheEntry", map[string]any{"key": "k", "version": strings.Repeat("a", 64)})
	if _, err := c.server.Save(); !errors.Is(err, service.ErrUploading) {
		t.Errorf("%v", err)
	}
}

func TestWhatWasSavedIsChecked(t *testing.T) {
	t.Parallel()
	saved, err := start(t, options(t)).server.Save()
	if err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string][]byte{
		"nothing":      []byte("{}"),
		"not JSON":     []byte("x"),
		"a field more": bytes.Replace(saved, []byte("{"), []byte(`{"more":1,`), 1),
		"a short key":  bytes.Replace(saved, []byte(`"key":"`), []byte(`"key":"","x":"`), 1),
		"cut":          saved[:len(saved)-2],
	} {
		opts := options(t)
		opts.Saved = wrong
		if s, err := service.Start(opts); err == nil {
			_ = s.Close()
			t.Errorf("%s: a server starts", name)
		}
	}
}
