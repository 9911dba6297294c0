package instancegroup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/ssh"
)

func TestALimiterSpreadsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := &Limiter{PerSecond: 10}
		var all sync.WaitGroup
		for range 11 {
			all.Go(func() { _ = l.Do(t.Context(), func(context.Context) error { return nil }) })
		}
		all.Wait()
		if took := time.Since(start); took != time.Second {
			t.Errorf("11 calls at 10 a second took %s", took)
		}
		if m := l.Metrics(); m[0].Value != 11 || m[1].Value != 10 {
			t.Errorf("the metrics are %+v", m)
		}
	})
}

func TestALimiterTriesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		errs     []error // one for each try
		tries    int
		min, max time.Duration
		want     error
	}{
		"what passes":                    {[]error{Transient(0, errors.New("503")), nil}, 2, 500 * time.Millisecond, time.Second, nil},
		"what passes later, each time":   {[]error{Transient(0, nil), Transient(0, nil), Transient(0, nil), nil}, 4, 3500 * time.Millisecond, 7 * time.Second, nil},
		"when the error says":            {[]error{Transient(time.Minute, nil), nil}, 2, time.Minute, time.Minute, nil},
		"not for good":                   {[]error{Transient(1, nil), Transient(1, nil), Transient(1, nil), Transient(1, nil), Transient(1, nil)}, 5, 4, 4, ErrTransient},
		"not what will not work":         {[]error{&Error{Kind: ErrUnauthorised}}, 1, 0, 0, ErrUnauthorised},
		"not a quota that does not pass": {[]error{&Error{Kind: ErrQuota}}, 1, 0, 0, ErrQuota},
		"a quota that passes in a while": {[]error{&Error{Kind: ErrQuota, After: time.Second}, nil}, 2, time.Second, time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, tries := time.Now(), 0
				err := (&Limiter{}).Do(t.Context(), func(context.Context) error { tries++; return c.errs[tries-1] })
				if took := time.Since(start); !errors.Is(err, c.want) || tries != c.tries || took < c.min || took > c.max {
					t.Errorf("%d tries took %s: %v", tries, took, err)
				}
			})
		})
	}
}

func TestALimiterEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := (&Limiter{}).Do(ctx, func(context.Context) error { return Transient(time.Hour, errors.New("429")) })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrTransient) {
			t.Error(err)
		}
	})
}

func TestCredentialsAreThoseThatTheSettingsAskFor(t *testing.T) {
	made, err := NewCredentials(Settings{Owner: "us"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		connector ConnectorConfig
		key       string // "", "given" or "made"
		err       string
	}{
		"a static password":   {ConnectorConfig{UseStaticCredentials: true, Password: "p"}, "", ""},
		"a static key":        {ConnectorConfig{UseStaticCredentials: true, Key: made.Connector.Key}, "given", ""},
		"static and nothing":  {ConnectorConfig{UseStaticCredentials: true}, "", "use_static_credentials needs a password, or a key"},
		"a key that is given": {ConnectorConfig{Key: made.Connector.Key}, "given", ""},
		"a key that is made":  {ConnectorConfig{}, "made", ""},
		"a key that is none":  {ConnectorConfig{Key: []byte("x")}, "", "the key in key_path"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NewCredentials(Settings{ConnectorConfig: c.connector})
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			if got.Generated != (c.key == "made") || (got.PublicKey == "") != (c.key == "") || (c.key == "given") != bytes.Equal(got.Connector.Key, made.Connector.Key) {
				t.Errorf("%q, %t", got.PublicKey, got.Generated)
			}
			if c.key == "" {
				return
			}
			signer, err := ssh.ParsePrivateKey(got.Connector.Key)
			if err != nil || !strings.HasPrefix(got.PublicKey, "ssh-ed25519 ") || !strings.HasPrefix(string(ssh.MarshalAuthorizedKey(signer.PublicKey())), got.PublicKey) {
				t.Errorf("%q, %v", got.PublicKey, err)
			}
		})
	}
}

func TestAddressesAreChosen(t *testing.T) {
	for _, c := range []struct {
		six                        bool
		all                        []string
		wantInternal, wantExternal string
	}{
		{false, []string{"fd00::1", "10.0.0.1", "2001:db8::1", "192.0.2.1"}, "10.0.0.1", "192.0.2.1"},
		{true, []string{"fd00::1", "10.0.0.1", "2001:db8::1", "192.0.2.1"}, "fd00::1", "2001:db8::1"},
		{false, []string{"2001:db8::1"}, "", "2001:db8::1"},
		{false, []string{"127.0.0.1", "fe80::1", "::", "host", "172.16.0.9"}, "172.16.0.9", ""},
		{false, nil, "", ""},
	} {
		if internal, external := Addresses(c.six, c.all...); internal != c.wantInternal || external != c.wantExternal {
			t.Errorf("%v: %q, %q", c.all, internal, external)
		}
	}
}

func TestAMachineIsReadyWhenSomebodyAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	var r Readiness
	if got := r.State(t.Context(), "i", addr); got != StateRunning {
		t.Errorf("with somebody there: %s", got)
	}
	listener.Close()
	if got := r.State(t.Context(), "i", addr); got != StateRunning {
		t.Errorf("once it was ready: %s", got)
	}
	r.Forget("i")
	if got := r.State(t.Context(), "i", addr); got != StateCreating {
		t.Errorf("with nobody there: %s", got)
	}
}

func TestARecordOutlivesTheGroup(t *testing.T) {
	settings := Settings{State: t.TempDir()}
	var got map[string]int
	if err := Load(settings, "x", &got); err != nil || got != nil {
		t.Error(got, err)
	}
	if err := Save(settings, "x", map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if err := Load(settings, "x", &got); err != nil || got["a"] != 1 {
		t.Error(got, err)
	}
}

// memory is a cloud that forgets nothing, and lists with a delay.
type memory struct {
	mu       sync.Mutex
	machines []Machine
	hidden   bool           // lists show nothing
	fail     map[string]int // how often a name fails
	orders   []string
}

func (m *memory) Open(context.Context, hclog.Logger, Settings) (ProviderInfo, error) {
	return ProviderInfo{ID: "memory", MaxSize: 10}, nil
}

func (m *memory) Machines(context.Context) ([]Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hidden {
		return nil, nil
	}
	return append([]Machine(nil), m.machines...), nil
}

func (m *memory) Create(_ context.Context, o Order) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.orders = append(m.orders, o.Name)
	if m.fail[o.Name]--; m.fail[o.Name] >= 0 {
		return "", &Error{Kind: ErrQuota}
	}
	id := fmt.Sprint("m", len(m.machines))
	m.machines = append(m.machines, Machine{Instance: Instance{ID: id, State: StateRunning, Labels: o.Labels}})
	return id, nil
}

func (m *memory) Delete(_ context.Context, id string) error { return ErrNotFound }

func TestARequestThatIsRepeatedMakesTheMachinesThatAreMissing(t *testing.T) {
	cloud := &memory{fail: map[string]int{"r-2": 1}}
	settings := Settings{Owner: "us"}
	g := &machines{cloud: cloud}
	if _, err := g.Init(t.Context(), hclog.NewNullLogger(), settings); err != nil {
		t.Fatal(err)
	}
	r := Request{ID: "r", Count: 3, Labels: map[string]string{OwnerLabel: "us", RequestLabel: "r"}}
	ids, err := g.IncreaseShape(t.Context(), r)
	if len(ids) != 2 || !errors.Is(err, ErrQuota) {
		t.Fatalf("%v, %v", ids, err)
	}
	cloud.hidden = true // its lists are behind
	if ids, err = g.IncreaseShape(t.Context(), r); len(ids) != 3 || err != nil {
		t.Fatalf("again: %v, %v", ids, err)
	}
	cloud.hidden = false
	next := &machines{cloud: cloud} // another process
	if _, err := next.Init(t.Context(), hclog.NewNullLogger(), settings); err != nil {
		t.Fatal(err)
	}
	if ids, err = next.IncreaseShape(t.Context(), r); len(ids) != 3 || err != nil || len(cloud.machines) != 3 {
		t.Errorf("by another process: %v, %v", ids, err)
	}
	if last := cloud.orders[len(cloud.orders)-1]; len(cloud.orders) != 4 || last != "r-2" {
		t.Errorf("ordered: %v", cloud.orders)
	}
	if ids, err := next.Decrease(t.Context(), []string{"m0", "x"}); len(ids) != 2 || err != nil {
		t.Errorf("deleted: %v, %v", ids, err)
	}
}

func TestTheCommandLineOfAPlugin(t *testing.T) {
	version := VersionInfo{Name: "x", Version: "1.2.3", Reference: "main"}
	for args, c := range map[string]struct {
		code   int
		stdout string
		stderr string
	}{
		"version": {0, "Version:      1.2.3\n", ""}, "-version": {0, "Git ref:      main\n", ""}, "--version": {0, "Name:         x\n", ""},
		"bootstrap": {2, "", "put this file on the PATH"}, "start": {2, "", `unknown argument "start"`},
	} {
		var stdout, stderr strings.Builder
		if code := command([]string{args}, version, &stdout, &stderr); code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
}

func TestOptionsFillAGroup(t *testing.T) {
	var into struct {
		Region string `json:"region"`
		Tags   map[string]int
	}
	for options, want := range map[string]string{
		``: "", `{"region": "eu", "tags": {"a": 1}}`: "", `{"region": 1}`: `the option "region" must be string, not number`,
		`{"regoin": "eu"}`: `unknown field "regoin"`, `{} {}`: "must be a JSON object", `{`: "must be a JSON object",
	} {
		if err := decode(options, &into); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", options, err)
		}
	}
	if into.Region != "eu" || into.Tags["a"] != 1 {
		text, _ := json.Marshal(into)
		t.Errorf("it is %s", text)
	}
}

// keyed is a cloud that says more of how its machines are reached.
type keyed struct {
	memory
	err error
}

func (k *keyed) Connect(_ context.Context, m Machine, publicKey string, info *ConnectInfo) error {
	info.Username = m.ID + " by " + strings.Fields(publicKey)[0]
	return k.err
}

func TestAGeneratedKeyIsThatOfTheProcessBefore(t *testing.T) {
	settings := func() Settings { return Settings{Owner: "us", State: t.TempDir()} }
	for name, c := range map[string]struct {
		cloud  Cloud
		before string // what is kept already
		given  ConnectorConfig
		same   bool
	}{
		"kept":                               {&memory{}, "", ConnectorConfig{}, true},
		"kept, where the record is damaged":  {&memory{}, "{", ConnectorConfig{}, true},
		"new, where the cloud puts it there": {&keyed{}, "", ConnectorConfig{}, false},
		"none, with a password":              {&memory{}, "", ConnectorConfig{UseStaticCredentials: true, Password: "x"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			s.ConnectorConfig = c.given
			file := filepath.Join(s.State, "key.json")
			if c.before != "" {
				if err := os.WriteFile(file, []byte(c.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var keys []string
			for range 2 {
				g := &machines{cloud: c.cloud}
				if _, err := g.Init(t.Context(), hclog.NewNullLogger(), s); err != nil {
					t.Fatal(err)
				}
				keys = append(keys, string(g.credentials.Connector.Key)+g.credentials.PublicKey)
			}
			if (keys[0] == keys[1]) != c.same {
				t.Errorf("the keys are the same: %v", !c.same)
			}
			if _, err := os.Stat(file); (err == nil) != (keys[0] != "" && c.same) {
				t.Errorf("the record: %v", err)
			}
		})
	}
}

func TestACloudSaysMoreOfHowAMachineIsReached(t *testing.T) {
	cloud := &keyed{}
	cloud.machines = []Machine{{Instance: Instance{ID: "m0", Labels: map[string]string{OwnerLabel: "us"}}, Addresses: []string{"10.0.0.1"}}}
	g := &machines{cloud: cloud}
	if _, err := g.Init(t.Context(), hclog.NewNullLogger(), Settings{Owner: "us"}); err != nil {
		t.Fatal(err)
	}
	if info, err := g.ConnectInfo(t.Context(), "m0"); err != nil || info.Username != "m0 by ssh-ed25519" || info.InternalAddr != "10.0.0.1" {
		t.Errorf("%v, %v", info, err)
	}
	cloud.err = Transient(0, errors.New("the key is not there yet"))
	if _, err := g.ConnectInfo(t.Context(), "m0"); !errors.Is(err, ErrTransient) {
		t.Error(err)
	}
}
