package container_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/executortest/enginetest"
	stepclient "github.com/rungci/rung/steps/service/client"
)

// ownStreamsImage is an image with users, and one with an entrypoint.
const ownStreamsImage, wrappedImage = "rung-test/streams:1", "rung-test/streams:2"

func TestTheFirstConnectionIsTheContainersOwnStreamsIfNobodyElseHasThem(t *testing.T) {
	enginetest.Busybox(t)
	files := []enginetest.File{
		{Name: "bin/busybox", Mode: 0o755, Content: busybox(t)}, {Name: "bin/sh", Link: "busybox"}, {Name: "tmp/", Mode: 0o1777},
		{Name: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0::/:/bin/sh\nworker:x:1000:1000::/tmp:/bin/sh\n")},
	}
	c := enginetest.Client(t)
	enginetest.Import(t, c, ownStreamsImage, files)
	enginetest.Import(t, c, wrappedImage, files, `ENTRYPOINT ["/bin/sh", "-c", "exec \"$@\"", "entry"]`)
	for _, tt := range []struct {
		name, image, user string
		log               *engine.LogConfig
		proxies           bool
	}{
		{name: "root", image: ownStreamsImage},
		{name: "another user", image: ownStreamsImage, user: "worker"},
		{name: "an image with an entrypoint", image: wrappedImage, proxies: true},
		{name: "an engine that keeps what is said", image: ownStreamsImage, log: &engine.LogConfig{Config: map[string]string{"max-size": "1m"}}, proxies: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, j := options(t.TempDir()), job("streams")
			o.Job.LogConfig, j.Image.Name, j.Image.PullPolicies, j.User = tt.log, tt.image, []string{container.Never}, tt.user
			began := time.Now()
			env, _ := open(t, o, j)
			proxies := c.Events(t.Context(), client.EventsListOptions{
				Since: fmt.Sprint(time.Now().Add(-time.Hour).Unix()), Filters: client.Filters{}.Add("container", env.Layout().Name).Add("event", "exec_create"),
			})
			steps, err := stepclient.Dial("environment", stepclient.WithDialer(env.Connect))
			if err != nil {
				t.Fatal(err)
			}
			defer steps.Disconnect()
			var log bytes.Buffer
			_, err = steps.Execute(t.Context(), stepclient.Request{
				ID: "streams", WorkDir: env.Layout().Project, Env: map[string]string{"PATH": "/bin"},
				Text: "- script: 'for f in /proc/1/fd/0 /proc/1/fd/1 /proc/$PPID/fd/0 /proc/$PPID/fd/1; do if (: <$f); then echo reads $f; fi; if (: >>$f); then echo writes $f; fi; done; echo ends'\n",
			}, &log)
			if text := log.String(); err != nil || !strings.Contains(text, "ends\n") || !tt.proxies && (strings.Contains(text, "reads") || strings.Contains(text, "writes")) {
				t.Errorf("%v\n%s", err, text)
			}
			late := time.Since(began) > 10*time.Second // on such a machine it may not be had any more
			within := time.Second                      // the engine has told of it long since
			if tt.proxies {
				within = time.Minute
			}
			select {
			case <-proxies.Messages:
				if !tt.proxies && !late {
					t.Error("the engine has started a process for the connection")
				}
			case err := <-proxies.Err:
				t.Error(err)
			case <-time.After(within):
				if tt.proxies {
					t.Error("the engine has started no process for the connection")
				}
			}
			found, err := c.ContainerInspect(t.Context(), env.Layout().Name, client.ContainerInspectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if kept := found.Container.HostConfig.LogConfig.Type != "none"; kept != tt.proxies {
				t.Errorf("the engine keeps what is said: %t", kept)
			}
			again, err := stepclient.Dial("environment", stepclient.WithDialer(env.Connect)) // while the first one is used
			if err != nil {
				t.Fatal(err)
			}
			defer again.Disconnect()
			if _, err := again.Execute(t.Context(), stepclient.Request{ID: "again", WorkDir: env.Layout().Project, Text: "- script: echo again\n"}, &log); err != nil {
				t.Errorf("another connection: %v", err)
			}
		})
	}
}

// givenUp is longer than a step-runner waits for the first word on a connection.
const givenUp = 30 * time.Second

func TestAConnectionIsThereHoweverLateItIsUsed(t *testing.T) {
	enginetest.Busybox(t)
	for name, use := range map[string]func(t *testing.T, env executor.Environment){
		"begun and left alone": func(t *testing.T, env executor.Environment) { // until the step-runner gives it up
			c, err := env.Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			late := time.AfterFunc(10*givenUp, func() { _ = c.Close() })
			if _, err := io.Copy(io.Discard, c); err != nil || !late.Stop() {
				t.Errorf("its end is not seen: %v", err)
			}
		},
		"not begun for long": func(*testing.T, executor.Environment) { time.Sleep(givenUp) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, _ := open(t, options(t.TempDir()), job("late"))
			use(t, env)
			steps, err := stepclient.Dial("environment", stepclient.WithDialer(env.Connect))
			if err != nil {
				t.Fatal(err)
			}
			defer steps.Disconnect()
			var log bytes.Buffer
			if _, err := steps.Execute(t.Context(), stepclient.Request{ID: "late", WorkDir: env.Layout().Project, Text: "- script: echo late\n"}, &log); err != nil {
				t.Errorf("%v\n%s", err, log.String())
			}
		})
	}
}
