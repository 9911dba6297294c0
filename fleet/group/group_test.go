package group_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/rungci/rung/fleet/group"
)

// scripted is a group that says what a test wants.
type scripted struct {
	lists    [][]group.Instance // one for each call; the last one stays
	increase func(ctx context.Context, n int) (int, error)
	decrease func([]string) ([]string, error)
	connect  func(string) (group.ConnectInfo, error)
	info     group.ProviderInfo
}

func (s *scripted) Init(context.Context, hclog.Logger, group.Settings) (group.ProviderInfo, error) {
	return s.info, nil
}

func (s *scripted) Update(context.Context, func(string, group.State)) error {
	return errors.New("a Lister is listed")
}

func (s *scripted) List(_ context.Context, update func(group.Instance)) error {
	for _, i := range s.lists[0] {
		update(i)
	}
	if len(s.lists) > 1 {
		s.lists = s.lists[1:]
	}
	return nil
}

func (s *scripted) Increase(ctx context.Context, n int) (int, error) { return s.increase(ctx, n) }
func (s *scripted) Decrease(_ context.Context, ids []string) ([]string, error) {
	return s.decrease(ids)
}
func (s *scripted) ConnectInfo(_ context.Context, id string) (group.ConnectInfo, error) {
	return s.connect(id)
}

func adapted(t *testing.T, s *scripted) *group.Group {
	t.Helper()
	g := group.Adapt(s)
	if _, err := g.Init(t.Context(), hclog.NewNullLogger(), group.Settings{Owner: "us"}); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestStatesOnlyGoForward(t *testing.T) {
	for said, want := range map[string]string{ // one instance in a list after another; "-" is not listed
		"creating running deleting deleted":        "creating running deleting deleted",
		"running creating running":                 "running running running",
		"running - creating":                       "running - running",
		"deleting running":                         "deleting deleting",
		"deleted running deleted":                  "deleted deleting deleted",
		"failed running":                           "failed failed",
		"running suspending suspended running":     "running suspending suspended running",
		"suspended creating running":               "suspended creating running",
		"running made-up running":                  "running running running",
		"made-up":                                  "creating",
		"deleting - creating running":              "deleting - creating running",
		"deleted - running":                        "deleted - running",
		"running - - - - - - - - - - - - creating": "running - - - - - - - - - - - - creating",
	} {
		t.Run(said, func(t *testing.T) {
			s := &scripted{}
			for _, state := range strings.Fields(said) {
				var list []group.Instance
				if state != "-" {
					list = []group.Instance{{ID: "i", State: group.State(state)}}
				}
				s.lists = append(s.lists, list)
			}
			g := adapted(t, s)
			var got []string
			for range strings.Fields(said) {
				list, err := g.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(list) == 0 {
					got = append(got, "-")
					continue
				}
				got = append(got, string(list[0].State))
			}
			if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAListHasTheInstancesOfItsOwnerAndNoOthers(t *testing.T) {
	g := adapted(t, &scripted{lists: [][]group.Instance{{
		{ID: "b", State: group.StateRunning}, {ID: "theirs", State: group.StateRunning, Labels: map[string]string{group.OwnerLabel: "them"}}, {ID: ""},
		{ID: "a", State: group.StateRunning, Labels: map[string]string{group.OwnerLabel: "us"}}, {ID: "b", State: group.StateCreating},
	}}})
	list, err := g.List(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != "a" || list[1].ID != "b" || list[1].State != group.StateRunning {
		t.Errorf("%v, %v", list, err)
	}
}

func TestARepeatedRequestMakesWhatIsMissing(t *testing.T) {
	quota := &group.Error{Kind: group.ErrQuota}
	for name, c := range map[string]struct {
		answers []func(ctx context.Context, n int) (int, error) // of Increase
		want    []string                                        // of Create: the count, and the kind of the error
		asked   []int
	}{
		"all of it": {
			[]func(context.Context, int) (int, error){func(_ context.Context, n int) (int, error) { return n, nil }},
			[]string{"3 <nil>", "3 <nil>"}, []int{3},
		},
		"a part, and then the rest": {
			[]func(context.Context, int) (int, error){
				func(context.Context, int) (int, error) { return 1, quota },
				func(_ context.Context, n int) (int, error) { return n, nil },
			},
			[]string{"1 quota", "3 <nil>", "3 <nil>"}, []int{3, 2},
		},
		"more than was asked for": {
			[]func(context.Context, int) (int, error){func(_ context.Context, n int) (int, error) { return n + 1, nil }},
			[]string{"4 <nil>", "4 <nil>"}, []int{3},
		},
		"less than none": {
			[]func(context.Context, int) (int, error){
				func(context.Context, int) (int, error) { return -1, nil },
				func(_ context.Context, n int) (int, error) { return n, nil },
			},
			[]string{"0 other", "3 <nil>"}, []int{3, 3},
		},
		"an answer that did not come": {
			[]func(context.Context, int) (int, error){
				func(context.Context, int) (int, error) { return 0, &group.Error{Kind: group.ErrUncertain} },
			},
			[]string{"0 uncertain", "0 uncertain"}, []int{3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []int
			s := &scripted{increase: func(ctx context.Context, n int) (int, error) {
				asked = append(asked, n)
				return c.answers[len(asked)-1](ctx, n)
			}}
			g := adapted(t, s)
			var got []string
			for range c.want {
				created, err := g.Create(t.Context(), group.Request{ID: "r", Count: 3})
				kind := "other"
				switch {
				case err == nil:
					kind = "<nil>"
				case errors.Is(err, group.ErrQuota):
					kind = "quota"
				case errors.Is(err, group.ErrUncertain):
					kind = "uncertain"
				}
				got = append(got, fmt.Sprint(created.Count, " ", kind))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.asked, asked); diff != "" {
				t.Error("asked for:", diff)
			}
			if _, err := g.Create(t.Context(), group.Request{ID: "r", Count: 4}); err == nil {
				t.Error("the request can be for another number")
			}
		})
	}
}

func TestACallThatWasCancelledIsUncertain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := adapted(t, &scripted{increase: func(ctx context.Context, _ int) (int, error) {
		cancel()
		<-ctx.Done()
		return 0, ctx.Err()
	}})
	if _, err := g.Create(ctx, group.Request{ID: "r", Count: 1}); !errors.Is(err, group.ErrUncertain) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := g.Create(t.Context(), group.Request{ID: "r", Count: 1}); !errors.Is(err, group.ErrUncertain) {
		t.Error("again:", err)
	}
}

func TestAnswersAreAboutWhatWasAskedFor(t *testing.T) {
	g := adapted(t, &scripted{
		decrease: func(ids []string) ([]string, error) { return append(ids, "other", ids[0]), nil },
		connect: func(id string) (group.ConnectInfo, error) {
			info := group.ConnectInfo{ID: id, InternalAddr: "10.0.0.1"}
			switch id {
			case "another":
				info.ID = "i"
			case "nowhere":
				info.InternalAddr = ""
			case "telnet":
				info.Protocol = "telnet"
			}
			return info, nil
		},
	})
	done, err := g.Delete(t.Context(), []string{"a", "b", "a"})
	if !slices.Equal(done, []string{"a", "b"}) || err == nil || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("%v, %v", done, err)
	}
	for id, want := range map[string]string{"i": "", "another": `of the instance "i" when asked for "another"`, "nowhere": "no address", "telnet": `reached by "telnet"`} {
		_, err := g.ConnectInfo(t.Context(), id)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestAGroupThatCannotSaysSo(t *testing.T) {
	g := adapted(t, &scripted{})
	_, suspend := g.Suspend(t.Context(), []string{"i"})
	_, shape := g.Create(t.Context(), group.Request{ID: "r", Count: 1, Shape: "large"})
	for name, err := range map[string]error{"Suspend": suspend, "Create": shape, "Watch": g.Watch(t.Context(), nil)} {
		if !errors.Is(err, group.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := g.Heartbeat(t.Context(), "i"); err != nil {
		t.Error(err)
	}
	if offers, err := g.Offers(t.Context()); offers != nil || err != nil {
		t.Error(offers, err)
	}
}

func TestErrorsHaveAKindATextAndATime(t *testing.T) {
	below := errors.New("500")
	err := fmt.Errorf("listing: %w", group.Transient(time.Minute, below))
	after, later := group.RetryAfter(err)
	if !errors.Is(err, group.ErrTransient) || !errors.Is(err, below) || after != time.Minute || !later || err.Error() != "listing: it may work later: 500" {
		t.Errorf("%v, %s, %t", err, after, later)
	}
	if _, later := group.RetryAfter(&group.Error{Kind: group.ErrQuota}); later {
		t.Error("a quota is said to pass")
	}
	if !errors.Is(group.ErrSuspendResumeNotSupported, group.ErrUnsupported) {
		t.Error("suspending is not unsupported")
	}
}

func TestAddressesAndTheirPorts(t *testing.T) {
	for _, c := range []struct {
		info     group.ConnectInfo
		external bool
		want     string
	}{
		{group.ConnectInfo{InternalAddr: "10.0.0.1", ExternalAddr: "h.test"}, false, "10.0.0.1:22"},
		{group.ConnectInfo{InternalAddr: "10.0.0.1", ExternalAddr: "h.test"}, true, "h.test:22"},
		{group.ConnectInfo{ExternalAddr: "h.test:2222"}, false, "h.test:2222"},
		{group.ConnectInfo{InternalAddr: "fd00::1"}, true, "[fd00::1]:22"},
		{group.ConnectInfo{InternalAddr: "w", ConnectorConfig: group.ConnectorConfig{Protocol: group.ProtocolWinRMHttps}}, false, "w:5986"},
		{group.ConnectInfo{InternalAddr: "w", ConnectorConfig: group.ConnectorConfig{Protocol: group.ProtocolWinRM, ProtocolPort: 1}}, false, "w:1"},
		{group.ConnectInfo{}, false, ""},
	} {
		if got := c.info.Addr(c.external); got != c.want {
			t.Errorf("%v: %q, want %q", c.info, got, c.want)
		}
	}
}

func TestConnectionsShowNoSecrets(t *testing.T) {
	info := group.ConnectInfo{ID: "i", ConnectorConfig: group.ConnectorConfig{Username: "ci", Password: "pass", Key: []byte("pem")}}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", info, info, info, info), fmt.Sprintf("%v %+v %#v", info.ConnectorConfig, info.ConnectorConfig, group.Settings{ConnectorConfig: info.ConnectorConfig})} {
		if strings.Contains(text, "pass") || strings.Contains(text, "pem") || strings.Contains(text, "112") || !strings.Contains(text, "ci") {
			t.Error(text)
		}
	}
}
