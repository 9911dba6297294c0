package github

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/local/limits"
	"github.com/rungci/rung/steps/containers"
)

func TestOptionsOfContainers(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       options
	}{
		{"none", "", options{}},
		{
			"a health check, over lines, with quotes", "--health-cmd \"pg_isready -U me\"\n --health-interval 10s --health-timeout=5s --health-retries 5 --health-start-period=1m",
			options{health: &containers.Health{Command: "pg_isready -U me", Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: time.Minute, Retries: 5}},
		},
		{"times without a command check nothing", "--health-interval 10s", options{}},
		{"a user and variables", "--user 1001:127 -e A=1 --env 'B=two words'", options{user: "1001:127", env: map[string]string{"A": "1", "B": "two words"}}},
		{"what means nothing here is told by its name", "--shm-size 1g --init --gpus=all --health-retries many", options{others: []string{"--shm-size", "--init", "--gpus", "--health-retries"}}},
		{
			"limits", "--cpus 1.5 --memory=2g --pids-limit 200",
			options{
				limits:   limits.Limits{Resources: executor.Resources{CPU: 1.5, Memory: 2 << 30, PIDs: 200}},
				limiting: []string{"--cpus", "--memory", "--pids-limit"},
			},
		},
		{"privileges, which have no value", "--privileged --user me", options{privileged: true, user: "me"}},
		{"privileges that are not asked for", "--privileged=false", options{}},
		{"what cannot be honored", "--network host --memory lots", options{
			wrong:    []string{"--network is not supported: " + ownNetwork, `--memory: "lots" is not a size, such as 512MiB or 2GiB`},
			limiting: []string{"--memory"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, readOptions(test.text), cmp.AllowUnexported(options{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWordsOfACommandLine(t *testing.T) {
	for text, want := range map[string][]string{
		"":                      nil,
		" a  b\tc\n":            {"a", "b", "c"},
		`'a b' "c d"e`:          {"a b", "c de"},
		`a\ b "c\"d" 'e\f' ""`:  {"a b", `c"d`, `e\f`, ""},
		`postgres -c "x='1 2'"`: {"postgres", "-c", "x='1 2'"},
	} {
		if diff := cmp.Diff(want, words(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestPortsOfServices(t *testing.T) {
	for _, test := range []struct {
		text         string
		inside, here uint16
		ok           bool
	}{
		{"6379", 6379, 0, true}, {"8080:80", 80, 8080, true}, {"80/tcp", 80, 0, true}, {"127.0.0.1:5432:5432", 5432, 5432, true}, {":80", 80, 0, true},
		{"53:53/udp", 0, 0, false}, {"http", 0, 0, false}, {"70000", 0, 0, false}, {"0", 0, 0, false}, {"", 0, 0, false}, {"1:2:3:4", 0, 0, false},
	} {
		inside, here, err := readPort(test.text)
		if (err == nil) != test.ok || test.ok && (inside != test.inside || here != test.here) {
			t.Errorf("%q gives %d, %d, %v", test.text, inside, here, err)
		}
	}
}
