package engine

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestTheVersionIsAgreedOn(t *testing.T) {
	for _, c := range []struct{ name, theirs, spoken, problem string }{
		{name: "an older engine's is spoken", theirs: "1.41", spoken: "/v1.41/version"},
		{name: "a newer engine is spoken to as we can", theirs: "1.99", spoken: "/v1.44/version"},
		{name: "the oldest that is understood", theirs: "1.35", spoken: "/v1.35/version"},
		{name: "an engine that is too old is refused", theirs: "1.34", problem: `"1.34"`},
		{name: "another kind of API is refused", theirs: "2.0", problem: `"2.0"`},
		{name: "what is no version is refused", theirs: "1.41/../..", problem: "of the API"},
		{name: "a number with a sign is refused", theirs: "1.+41", problem: "of the API"},
		{name: "what is no engine is refused", problem: "is not a container engine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var spoken string
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/_ping" {
					w.Header().Set("Api-Version", c.theirs)
					return
				}
				spoken = r.URL.Path
				_, _ = w.Write([]byte(`{"Os":"linux","Arch":"arm64"}`))
			})
			found, err := client.Version(t.Context())
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) || spoken != "" {
					t.Errorf("%v, %q", err, spoken)
				}
				return
			}
			if err != nil || spoken != c.spoken || found.Os != "linux" || found.Arch != "arm64" {
				t.Errorf("%q, %+v: %v", spoken, found, err)
			}
		})
	}
}

func TestTheVersionIsAskedForOnceItIsKnown(t *testing.T) {
	var pings atomic.Int32
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/_ping":
			_, _ = w.Write([]byte("{}"))
		case pings.Add(1) == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.Header().Set("Api-Version", "1.41")
		}
	})
	if _, err := client.Version(t.Context()); Status(err) != http.StatusServiceUnavailable {
		t.Errorf("an engine that is not ready: %v", err)
	}
	for range 3 {
		if _, err := client.Version(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if pings.Load() != 2 {
		t.Errorf("%d pings", pings.Load())
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{})
	client := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(why)
	}()
	if err := client.Ping(ctx); !errors.Is(err, why) {
		t.Error(err)
	}
}
