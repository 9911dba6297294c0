package engine

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnEnginesNoHasItsStatusAndItsWords(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"as Docker says it", 404, `{"message":"No such container: x"}`, "No such container: x"},
		{"as Podman says it", 409, `{"cause":"in use","message":"volume is in use","response":409}`, "volume is in use"},
		{"as Podman says that a container does not run", 500, `{"cause":"container state improper","message":"not running","response":500}`, "not running"},
		{"as plain text", 400, "Client sent an HTTP request to an HTTPS server.\n", "Client sent an HTTP request to an HTTPS server."},
		{"without a word", 500, "", "it answers 500 Internal Server Error"},
		{"as JSON without a message", 503, `{"code":7}`, "it answers 503 Service Unavailable"},
		{"as a message of another kind", 500, `{"message":{"a":1}}`, "it answers 500 Internal Server Error"},
		{"as another place", 302, "", "it answers 302 Found"},
		{"at great length", 500, strings.Repeat("x", 2*maxRefusal), strings.Repeat("x", maxRefusal)},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake(t, exchange{ask: "POST /v1.41/containers/x/start ", status: c.status, answer: c.body, header: http.Header{"Location": {"/elsewhere"}}})
			err := fmt.Errorf("starting: %w", client.Containers.Start(t.Context(), "x"))
			status := c.status
			if strings.Contains(c.body, wrongState) {
				status = http.StatusConflict
			}
			var refused *Error
			if !errors.As(err, &refused) || refused.Status != status || refused.Message != c.want || Status(err) != status {
				t.Errorf("%v", err)
			}
		})
	}
	if Status(nil) != 0 || Status(errors.New("other")) != 0 {
		t.Error("what is no answer has a status")
	}
}

func TestAnswersThatCannotBeUnderstoodAreErrors(t *testing.T) {
	for name, c := range map[string][2]string{
		"no JSON":  {"<html>", "cannot be understood"},
		"too long": {`"` + strings.Repeat("x", maxAnswer) + `"`, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake(t, exchange{ask: "GET /v1.41/exec/x/json ", answer: c[0]})
			if _, err := client.Containers.InspectExec(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), c[1]) {
				t.Error(err)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	for _, host := range []string{"unix:///nowhere/docker.sock", "tcp://127.0.0.1:1"} {
		c, err := New(host, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Version(t.Context()); !Unreachable(err) || Status(err) != 0 {
			t.Errorf("%s: %v", host, err)
		}
		if _, _, err := c.Containers.Exec(t.Context(), "x", Exec{}); !Unreachable(err) {
			t.Errorf("%s: a stream: %v", host, err)
		}
	}
	client := fake(t, exchange{ask: "DELETE /v1.41/networks/n ", status: http.StatusForbidden})
	if err := client.Networks.Remove(t.Context(), "n"); Unreachable(err) {
		t.Errorf("an engine that refuses: %v", err)
	}
}

// TestCalls holds every call against the bytes that the API's reference asks for.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		exchange
		call func(*Client) (any, error)
		want any
	}{
		{"make a container", exchange{
			ask: `POST /v1.41/containers/create?name=job&platform=linux%2Farm64%2Fv8 {"Image":"sha256:1","User":"1:2","Hostname":"h","WorkingDir":"/w",` +
				`"Entrypoint":[""],"Cmd":null,"Env":["A=b"],"Labels":{"l":"v"},"Healthcheck":{"Test":["NONE"]},` +
				`"HostConfig":{"Mounts":[{"Type":"volume","Source":"v","Target":"/t"}],"NetworkMode":"n","Privileged":true,"Init":true},` +
				`"NetworkingConfig":{"EndpointsConfig":{"n":{"Aliases":["db"]}}}}`,
			status: 201, answer: `{"Id":"abc","Warnings":["x"]}`,
		}, func(c *Client) (any, error) {
			return c.Containers.Create(t.Context(), "job", "linux/arm64/v8", &Container{
				Image: "sha256:1", User: "1:2", Hostname: "h", WorkingDir: "/w", Entrypoint: []string{""}, Env: []string{"A=b"}, Labels: map[string]string{"l": "v"},
				Healthcheck:      &Healthcheck{Test: []string{"NONE"}},
				HostConfig:       HostConfig{Mounts: []Mount{{Type: "volume", Source: "v", Target: "/t"}}, NetworkMode: "n", Privileged: true, Init: new(true)},
				NetworkingConfig: NetworkingConfig{EndpointsConfig: map[string]Endpoint{"n": {Aliases: []string{"db"}}}},
			})
		}, "abc"},
		{"make a container with no more than an image", exchange{
			ask: `POST /v1.41/containers/create?name=job {"Image":"i","Entrypoint":null,"Cmd":["a"],"HostConfig":{},"NetworkingConfig":{}}`, answer: `{"Id":"abc"}`,
		}, func(c *Client) (any, error) {
			return c.Containers.Create(t.Context(), "job", "", &Container{Image: "i", Cmd: []string{"a"}})
		}, "abc"},
		{"inspect a container", exchange{
			ask:    "GET /v1.41/containers/abc/json ",
			answer: `{"State":{"Running":false,"ExitCode":3},"NetworkSettings":{"Networks":{"n":{"Aliases":null,"IPAddress":"10.0.0.2","GlobalIPv6Address":""}}}}`,
		}, func(c *Client) (any, error) {
			found, err := c.Containers.Inspect(t.Context(), "abc")
			return fmt.Sprint(found.State.ExitCode, found.NetworkSettings.Networks["n"].IPAddress, found.NetworkSettings.Networks["n"].GlobalIPv6Address), err
		}, fmt.Sprint(3, netip.MustParseAddr("10.0.0.2"), netip.Addr{})},
		{"inspect a command that was not started", exchange{ask: "GET /v1.41/exec/abc/json ", answer: `{"ID":"abc","Running":false,"ExitCode":null}`},
			func(c *Client) (any, error) { return c.Containers.InspectExec(t.Context(), "abc") }, ExecState{}},
		{"wait for a container", exchange{ask: "POST /v1.41/containers/abc/wait?condition=not-running ", answer: `{"StatusCode":7,"Error":null}`},
			func(c *Client) (any, error) { return c.Containers.Wait(t.Context(), "abc") }, 7},
		{"list containers", exchange{ask: "GET /v1.41/containers/json?all=1&filters=%7B%22label%22%3A%5B%22l%3D%5C%22v%5C%22%22%5D%7D ", answer: `[{"Id":"a"},{"Id":"b"}]`},
			func(c *Client) (any, error) { return c.Containers.List(t.Context(), "l", `"v"`) }, []string{"a", "b"}},
		{"kill a container", exchange{ask: "POST /v1.41/containers/abc/kill ", status: 204},
			func(c *Client) (any, error) { return nil, c.Containers.Kill(t.Context(), "abc") }, nil},
		{"remove a container", exchange{ask: "DELETE /v1.41/containers/abc?force=1&v=1 ", status: 204},
			func(c *Client) (any, error) { return nil, c.Containers.Remove(t.Context(), "abc") }, nil},
		{"look at a file", exchange{ask: "HEAD /v1.41/containers/abc/archive?path=%2Fa+b%26c "},
			func(c *Client) (any, error) { return nil, c.Containers.StatFile(t.Context(), "abc", "/a b&c") }, nil},
		{"write files", exchange{ask: "PUT /v1.41/containers/abc/archive?path=%2F a tar"},
			func(c *Client) (any, error) {
				return nil, c.Containers.WriteFiles(t.Context(), "abc", "/", strings.NewReader("a tar"))
			}, nil},
		{"make a network", exchange{ask: `POST /v1.41/networks/create {"Name":"n","Driver":"bridge","Labels":{"l":"v"}}`, status: 201, answer: `{"Id":"abc"}`},
			func(c *Client) (any, error) {
				return c.Networks.Create(t.Context(), Network{Name: "n", Labels: map[string]string{"l": "v"}})
			}, "abc"},
		{"make a network that leads nowhere", exchange{ask: `POST /v1.41/networks/create {"Name":"n","Driver":"bridge","Internal":true,"Labels":null,"Options":{"com.docker.network.bridge.inhibit_ipv4":"true"}}`, status: 201, answer: `{"Id":"abc"}`},
			func(c *Client) (any, error) {
				return c.Networks.Create(t.Context(), Network{Name: "n", Internal: true})
			}, "abc"},
		{"make a network with addresses", exchange{ask: `POST /v1.41/networks/create {"Name":"n","Driver":"bridge","Labels":null,"IPAM":{"Config":[{"Subnet":"198.18.0.32/27"}]}}`, status: 201, answer: `{"Id":"abc"}`},
			func(c *Client) (any, error) {
				return c.Networks.Create(t.Context(), Network{Name: "n", Subnet: netip.MustParsePrefix("198.18.0.32/27")})
			}, "abc"},
		{"ask what a machine has", exchange{ask: "GET /v1.41/info ", answer: `{"NCPU":2,"MemoryLimit":true,"PidsLimit":true,"CpuCfsQuota":true,"CPUSet":true,"Runtimes":{"runsc":{"path":"runsc"}}}`},
			func(c *Client) (any, error) { return c.Info(t.Context()) }, Info{NCPU: 2, MemoryLimit: true, PidsLimit: true, CPUCfsQuota: true, CPUSet: true, Runtimes: map[string]struct{}{"runsc": {}}}},
		{"list networks", exchange{ask: "GET /v1.41/networks?filters=%7B%22label%22%3A%5B%22l%3Dv%22%5D%7D ", answer: `[]`},
			func(c *Client) (any, error) { return c.Networks.List(t.Context(), "l", "v") }, []string(nil)},
		{"leave a network", exchange{ask: `POST /v1.41/networks/n/disconnect {"Container":"abc","Force":true}`},
			func(c *Client) (any, error) { return nil, c.Networks.Leave(t.Context(), "n", "abc") }, nil},
		{"make a volume", exchange{ask: `POST /v1.41/volumes/create {"Name":"v","Labels":{"l":"v"}}`, status: 201, answer: `{"Name":"v"}`},
			func(c *Client) (any, error) {
				return nil, c.Volumes.Create(t.Context(), "v", map[string]string{"l": "v"}, VolumeDriver{})
			}, nil},
		{"list volumes", exchange{ask: "GET /v1.41/volumes?filters=%7B%22label%22%3A%5B%22l%3Dv%22%5D%7D ", answer: `{"Volumes":[{"Name":"v"}],"Warnings":null}`},
			func(c *Client) (any, error) { return c.Volumes.List(t.Context(), "l", "v") }, []string{"v"}},
		{"remove a volume", exchange{ask: "DELETE /v1.41/volumes/v?force=1 ", status: 204},
			func(c *Client) (any, error) { return nil, c.Volumes.Remove(t.Context(), "v") }, nil},
		{"resize a terminal", exchange{ask: "POST /v1.41/exec/e/resize?h=24&w=80 ", status: 201},
			func(c *Client) (any, error) { return nil, c.Containers.ResizeExec(t.Context(), "e", 24, 80) }, nil},
		{"inspect an image whose name is hostile", exchange{ask: "GET /v1.41/images/a:1%3Fb%23c%25/json ", answer: `{"Id":"sha256:1","Config":null}`},
			func(c *Client) (any, error) {
				found, err := c.Images.Inspect(t.Context(), "a:1?b#c%")
				return found.ID, err
			}, "sha256:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.call(fake(t, c.exchange))
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAnEngineWithoutAddressesIsTold(t *testing.T) {
	for text, want := range map[string]struct{ none, taken bool }{
		"could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network": {none: true},
		"all predefined address pools have been fully subnetted":                                                     {none: true},
		"could not find free subnet from subnet pools":                                                               {none: true},
		"Pool overlaps with other one on this address space":                                                         {taken: true},
		"invalid pool request: Pool overlaps with other one on this address space":                                   {taken: true},
		"subnet 198.18.0.32/27 is already used on the host or by another config":                                     {taken: true},
		"network with name n already exists":                                                                         {},
	} {
		err := fmt.Errorf("making it: %w", &Error{Status: 500, Message: text})
		if NoSubnet(err) != want.none || SubnetTaken(err) != want.taken {
			t.Errorf("%s: %t, %t", text, NoSubnet(err), SubnetTaken(err))
		}
	}
	if NoSubnet(nil) || SubnetTaken(nil) || SubnetTaken(errors.New("overlap")) {
		t.Error("what no engine says counts")
	}
}
