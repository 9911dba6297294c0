package pluginserver_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungci/rung/internal/pluginhost"
)

// chats is the variable that has the plugin print much in each call.
const chats = "RUNG_TEST_CHATS"

// descriptor is standard output itself, whatever os.Stdout is.
var descriptor = os.Stdout

// chat prints lines that are longer than what go-plugin reads, and than a pipe holds.
func chat() {
	long := strings.Repeat("x", 100_000)
	fmt.Println("of os.Stdout", long)
	fmt.Fprintln(os.Stderr, "[WARN] of os.Stderr", long)
	for range 3 {
		fmt.Fprintln(descriptor, "of the descriptor", long)
	}
}

// log is a log that is read while it is written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text.Bytes(), []byte(text))
}

func TestAPluginThatPrintsLongLinesAnswers(t *testing.T) {
	const service = "rung.fleet.v1.InstanceGroup"
	said := &log{}
	kind := &pluginhost.Kind{Name: "instance-group plugin", Prefix: "chatty-plugin-", Services: names(service, 1)}
	config := pluginhost.Config{
		Name: "chatty", File: os.Args[0], Log: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Env: []string{plays + "=" + service + " 1", chats + "=1"},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if serves, err := pluginhost.Serves(ctx, config, kind); err != nil || serves != kind {
		t.Fatalf("it does not answer: %v", err)
	}
	for _, want := range []string{`level=DEBUG msg="of os.Stdout xx`, `level=WARN msg="[WARN] of os.Stderr xx`, `level=DEBUG msg="of the descriptor xx`} {
		for until := time.Now().Add(time.Minute); !said.has(want); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("the log has no %s", want)
			}
		}
	}
}
