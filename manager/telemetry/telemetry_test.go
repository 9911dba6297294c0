package telemetry_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rungci/rung/manager/telemetry"
)

func TestClosingWaitsOnceForACollectorThatHangs(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the end of the connection is seen
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	e, err := telemetry.New(telemetry.Options{Getenv: func(string) string { return "" }, Endpoint: server.URL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	job := telemetry.Job{GitLab: "https://gitlab.example.com", ID: 1, Began: time.Now().Add(-time.Minute), Ended: time.Now(), Result: "success"}
	e.Job(job)
	<-asked // it is being sent
	e.Job(job)
	slog.New(e.Handler(slog.DiscardHandler)).Info("and this is not")
	began := time.Now()
	e.Close()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}
