package pluginserver_test

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/sdk/internal/pluginserver"
)

// plays is the variable that makes the test binary a plugin: its service, and the versions of it.
const plays = "RUNG_TEST_PLAYS"

func TestMain(m *testing.M) {
	if service, versions, ok := strings.Cut(os.Getenv(plays), " "); ok {
		services := map[int]func(*grpc.Server){}
		for _, text := range strings.Fields(versions) {
			version, err := strconv.Atoi(text)
			if err != nil {
				panic(err)
			}
			services[version] = func(to *grpc.Server) { describing(to, names(service, version)[version]) }
		}
		pluginserver.Serve("versions", services, func() bool { return true })
		return
	}
	os.Exit(m.Run())
}

// names are those of a service in these versions of the protocol: each has a package of its own.
func names(service string, versions ...int) map[int]string {
	all := map[int]string{}
	for _, version := range versions {
		all[version] = strings.Replace(service, ".v1.", ".v"+strconv.Itoa(version)+".", 1)
	}
	return all
}

// describing serves a service that has the call which all have.
func describing(to *grpc.Server, name string) {
	to.RegisterService(&grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Describe",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			return intercept(ctx, &emptypb.Empty{}, &grpc.UnaryServerInfo{FullMethod: "/" + name + "/Describe"}, func(_ context.Context, request any) (any, error) {
				if os.Getenv(chats) != "" {
					chat()
				}
				return &emptypb.Empty{}, decode(request)
			})
		},
	}}}, struct{}{})
}

// TestTwoVersionsOfTheProtocolAtOnce is what a version 2 will rest on: nobody speaks it yet.
func TestTwoVersionsOfTheProtocolAtOnce(t *testing.T) {
	for _, kind := range []struct{ name, service string }{
		{"executor plugin", "rung.executor.v1.Executor"}, {"provider plugin", "rung.provider.v1.Provider"}, {"instance-group plugin", "rung.fleet.v1.InstanceGroup"},
	} {
		for _, c := range []struct {
			name    string
			runner  []int
			plugin  string
			version int
			refused string
		}{
			{"a runner of two versions, a plugin of the old one", []int{1, 2}, "1", 1, ""},
			{"a runner of two versions, a plugin of both", []int{1, 2}, "1 2", 2, ""},
			{"a runner of two versions, a plugin of the new one", []int{1, 2}, "2", 2, ""},
			{"an old runner, a plugin of both", []int{1}, "1 2", 1, ""},
			{"versions that neither is newest of", []int{1, 2}, "2 3", 2, ""},
			{"an old runner, a plugin of the new one", []int{1}, "2", 0, "it speaks version 2 of the protocol, and this rung version 1; it needs a newer rung, or an older version of the plugin"},
			{"a version that nobody knows", []int{1, 2}, "7", 0, "it speaks version 7 of the protocol, and this rung versions 1 and 2; it needs a newer rung, or an older version of the plugin"},
			{"a runner that has left the old version behind", []int{2, 3}, "1", 0, "it speaks version 1 of the protocol, and this rung versions 2 and 3; install a newer version of the plugin"},
		} {
			t.Run(kind.name+": "+c.name, func(t *testing.T) {
				t.Parallel()
				of := &pluginhost.Kind{Name: kind.name, Prefix: "versions-plugin-", Services: names(kind.service, c.runner...)}
				config := &pluginhost.Config{Name: "versions", File: os.Args[0], Log: slog.New(slog.DiscardHandler), Env: []string{plays + "=" + kind.service + " " + c.plugin}}
				p, err := of.Start(t.Context(), config, config.File)
				if c.refused != "" {
					if want := "the " + kind.name + ` "versions" does not start: ` + c.refused; err == nil || err.Error() != want {
						t.Fatalf("the error is %v, want %s", err, want)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer p.Leave()
				if p.Version() != c.version {
					t.Errorf("the version is %d, want %d", p.Version(), c.version)
				}
				if serves, err := pluginhost.Serves(t.Context(), *config, of); err != nil || serves != of {
					t.Errorf("the service of the version does not answer: %v", err)
				}
			})
		}
	}
}
