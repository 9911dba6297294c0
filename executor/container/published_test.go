package container_test

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/steps/containers"
)

func TestServicesWithoutAJob(t *testing.T) {
	enginetest.Busybox(t)
	start := func(t *testing.T, s containers.Service) (executor.Services, *lines) {
		t.Helper()
		e, err := options(t.TempDir()).open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		s.Image = containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}
		j := job("alone")
		j.Image, j.Services = nil, []containers.Service{s}
		said := &lines{}
		started, err := e.StartServices(t.Context(), j, said.report)
		if err != nil {
			t.Fatal(err, said)
		}
		t.Cleanup(func() {
			if err := started.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return started, said
	}
	serve := []string{"sh", "-c", `sleep 0.3; exec nc -ll -p 8080 -e echo "I am $NAME"`}
	t.Run("are reached from this machine when they listen", func(t *testing.T) {
		started, said := start(t, containers.Service{Command: serve, Variables: map[string]string{"NAME": "db"}, Ports: map[uint16]uint16{8080: 0}})
		port := started.Ports(0)[8080]
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		if err != nil {
			t.Fatal(err, said)
		}
		defer conn.Close()
		if text, err := bufio.NewReader(conn).ReadString('\n'); err != nil || text != "I am db\n" {
			t.Errorf("it says %q, %v\n%s", text, err, said)
		}
	})
	t.Run("are waited for until they are healthy", func(t *testing.T) {
		_, said := start(t, containers.Service{
			Command: []string{"sh", "-c", "sleep 0.3; touch /tmp/ready; sleep 600"}, Health: &containers.Health{Command: "test -e /tmp/ready", Interval: 1e8, Retries: 50},
		})
		if strings.Contains(said.String(), "warning") {
			t.Error(said)
		}
	})
	t.Run("that are not healthy are reported", func(t *testing.T) {
		_, said := start(t, containers.Service{
			Command: []string{"sh", "-c", "echo I am ill; sleep 600"}, Health: &containers.Health{Command: "false", Interval: 1e8, Retries: 1},
		})
		if text := said.String(); !strings.Contains(text, `its health check "false" fails`) || !strings.Contains(text, "I am ill") {
			t.Error(text)
		}
	})
}
