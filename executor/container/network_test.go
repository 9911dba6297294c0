package container_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/executortest"
	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/steps/containers"
)

// inWorld is a level whose jobs reach others by the network of a world.
func inWorld(w *enginetest.World) executortest.Level {
	l := level()
	l.Open = func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
		o := options("").Options
		o.Network.Mode = w.Network
		o.Job.ExtraHosts = w.Hosts
		if w.DNS != "" {
			o.Job.DNS = []string{w.DNS}
		}
		return container.New(ctx, setup, o)
	}
	return l
}

func TestAJobReachesWhatItsNetworkPolicyLetsThrough(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	w := enginetest.NewWorld(t)
	in := executortest.World{Level: inWorld(w), At: w.At, Rebind: enginetest.RebindName}
	executortest.Network(t, in)
	t.Run("names that lead elsewhere each time", func(t *testing.T) { executortest.Rebinding(t, in) })
}

func TestAJobReachesItsMachineWhereThatIsListed(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	network, router, _ := enginetest.Outside(t, false)
	executortest.Machine(t, inWorld(&enginetest.World{Network: network}), router.String())
}

func TestAJobReachesItsServicesUnderEveryNetworkPolicy(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	for _, policy := range []executor.NetworkPolicy{executor.NetworkNone, executor.NetworkPublic, "example.com:443"} {
		t.Run(string(policy), func(t *testing.T) {
			j := job("services")
			j.Network = policy
			j.Services = []containers.Service{{
				Image: containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}, Aliases: []string{"db"},
				Command: []string{"sh", "-c", "mkdir /www; env >/www/index.html; httpd -f -p 8080 -h /www"}, Variables: map[string]string{"HEALTHCHECK_TCP_PORT": "8080"},
			}}
			env, said := open(t, options(t.TempDir()), j)
			got := sh(t, env, "printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 5 db 8080")
			if !strings.Contains(got, "FROM_IMAGE=yes") || strings.Contains(got, "http_proxy=http://") != (policy != executor.NetworkNone) {
				t.Errorf("the service answers %q\n%s", got, said)
			}
		})
	}
}

func TestOneJobDoesNotReachAnother(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	first := job("first")
	first.Network = executor.NetworkPublic
	one, _ := open(t, options(t.TempDir()), first)
	at := strings.TrimSpace(sh(t, one, "ip -4 -o address show eth0 | sed 's/.*inet //; s|/.*||'; mkdir /tmp/www; echo reached >/tmp/www/index.html; httpd -p 8080 -h /tmp/www"))
	way := one.Layout().Env["http_proxy"]
	second := job("second")
	second.Network = executor.NetworkPublic
	other, _ := open(t, options(t.TempDir()), second)
	const ask = "{ printf 'GET %s HTTP/1.0\\r\\n\\r\\n'; sleep 3; } | timeout 5 nc %s %s | grep ^reached || true"
	for _, by := range []string{other.Layout().Env["http_proxy"], "http://" + at + ":8080", way} { // the third is the other job's
		proxy, port, _ := strings.Cut(strings.TrimPrefix(by, "http://"), ":")
		if got := sh(t, other, fmt.Sprintf(ask, "http://"+at+":8080/", proxy, port)); strings.Contains(got, "reached") {
			t.Errorf("by %s: %q", by, got)
		}
	}
	if got := sh(t, one, fmt.Sprintf(ask, "/", "127.0.0.1", "8080")); !strings.Contains(got, "reached") {
		t.Errorf("the server is not there: %q", got)
	}
}

func TestANetworkPolicyThatAJobCouldLiftIsRefused(t *testing.T) {
	enginetest.Busybox(t)
	for name, c := range map[string]struct {
		ask  func(*container.Options, *executor.Job)
		what string
	}{
		"a privileged job":      {func(_ *container.Options, j *executor.Job) { j.Privileged = true }, "privileged jobs"},
		"a privileged runner":   {func(o *container.Options, _ *executor.Job) { o.Privileged.On = true }, "a privileged container"},
		"a privileged service":  {func(o *container.Options, _ *executor.Job) { o.PrivilegedServices.On = true }, "the privileged service"},
		"rights on the network": {func(o *container.Options, _ *executor.Job) { o.Job.CapAdd = []string{"cap_net_admin"} }, "NET_ADMIN"},
		"a runner without one":  {func(o *container.Options, _ *executor.Job) { o.Network.Mode = "none" }, `the network "none"`},
	} {
		t.Run(name, func(t *testing.T) {
			o, j := options(t.TempDir()), job("lift")
			j.Network = executor.NetworkPublic
			j.Services = []containers.Service{{Image: containers.Image{Name: enginetest.Image, PullPolicies: []string{container.Never}}}}
			c.ask(&o.Options, j)
			_, err := prepare(t, o, j)
			var refusal *executor.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(refusal.What, c.what) {
				t.Error(err)
			}
		})
	}
}

func TestServicesOfContainers(t *testing.T) {
	t.Parallel()
	enginetest.Busybox(t)
	executortest.Services(t, level())
}
