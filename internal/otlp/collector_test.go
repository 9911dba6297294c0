package otlp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/otlp"
)

func TestAnEndpointWithAQuery(t *testing.T) {
	t.Parallel()
	var asked, user string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		user, _, _ = r.BasicAuth()
	}))
	t.Cleanup(server.Close)
	for name, endpoint := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "/base/?key=one", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "/base/v1/traces?key=one"} {
		c, err := otlp.CollectorOf(environment(name, strings.Replace(server.URL, "://", "://me:secret@", 1)+endpoint), otlp.SignalTraces, "")
		if err == nil {
			err = c.Post(t.Context(), []byte("{}"))
		}
		if err != nil || asked != "/base/v1/traces?key=one" || user != "me" {
			t.Errorf("%s: %s of %q, %v", name, asked, user, err)
		}
	}
}

func TestAnErrorDoesNotShowWhatAnAddressHides(t *testing.T) {
	t.Parallel()
	c, err := otlp.CollectorOf(environment("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hidden@127.0.0.1:1/base?key=hidden"), otlp.SignalTraces, "")
	if err != nil {
		t.Fatal(err)
	}
	err = c.Post(t.Context(), []byte("{}"))
	if err == nil || !strings.HasPrefix(err.Error(), "http://127.0.0.1:1/base/v1/traces: ") || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}

func environment(name, value string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return value
		}
		return ""
	}
}
