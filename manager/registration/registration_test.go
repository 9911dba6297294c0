package registration_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/manager/registration"
)

const existing = "# kept\nconcurrent = 4   # so is this\n"

// world is a GitLab and a machine.
func world(t *testing.T, before string) (*gitlabtest.Server, string, *registration.Manager) {
	t.Helper()
	s := gitlabtest.New(gitlabtest.Options{})
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		for _, v := range s.Violations() {
			t.Error(v)
		}
	})
	path := filepath.Join(t.TempDir(), "config.toml")
	if before != "" {
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s, server.URL, &registration.Manager{
		Path: path, Info: registration.Info("1.0", "abc"), Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		Options: func(o *gitlab.Options) { o.Wait = func(context.Context, time.Duration) error { return nil } },
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRegisterWithAnAuthenticationToken(t *testing.T) {
	t.Parallel()
	s, url, m := world(t, existing)
	token := s.NewRunner()
	got, err := m.Register(t.Context(), registration.Request{
		Values: config.Values{"url": url, "token": token, "name": "n", "executor": "docker", "docker.image": "alpine"}, Server: gitlab.Registration{Locked: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := existing + `
[[runners]]
  name = "n"
  url = "` + url + `"
  id = 1001
  token = "` + token + `"
  token_obtained_at = 2026-01-02T03:04:05Z
  token_expires_at = 0001-01-01T00:00:00Z
  executor = "docker"
  [runners.docker]
    image = "alpine"
`
	if diff := cmp.Diff(want, content(t, m.Path)); diff != "" {
		t.Error(diff)
	}
	id, err := config.SystemID(m.Path)
	if info, ok := s.Runner(token).Managers[id]; err != nil || !ok || !info.Features.CancelGracefully || info.Executor != "docker" || got.Runner.ID != 1001 || got.Again {
		t.Errorf("GitLab knows %v, we %+v, %v", info, got, err)
	}
	if again, err := m.Register(t.Context(), registration.Request{
		Values: config.Values{"url": url, "token": token, "executor": "shell"}, Server: gitlab.Registration{Locked: true},
	}); err != nil || !again.Again {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

func TestRegisterWithARegistrationToken(t *testing.T) {
	t.Parallel()
	s, url, m := world(t, "")
	got, err := m.Register(t.Context(), registration.Request{
		Values: config.Values{"url": url, "name": "n", "executor": "shell"}, RegistrationToken: gitlabtest.RegistrationToken,
		Server: gitlab.Registration{Locked: true, Paused: true, TagList: "a,b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Runner(got.Runner.Token); r == nil || !r.Paused {
		t.Errorf("GitLab has %v", r)
	}
	c, err := config.Read(m.Path)
	if err != nil || c.Concurrent != 1 || c.Runners[0].Token != got.Runner.Token {
		t.Errorf("%+v, %v", c, err)
	}
	if err := m.Unregister(t.Context(), &c.Runners[0]); err != nil {
		t.Fatal(err)
	}
	if s.Runner(got.Runner.Token) != nil || strings.Contains(content(t, m.Path), "runners") {
		t.Error("the runner was not removed everywhere")
	}
}

func TestAnAuthenticationTokenIsTakenForWhatItIs(t *testing.T) {
	t.Parallel()
	s, url, m := world(t, existing)
	values := config.Values{"url": url, "executor": "shell"}
	got, err := m.Register(t.Context(), registration.Request{Values: values, RegistrationToken: s.NewRunner(), Server: gitlab.Registration{Locked: true, TagList: "a"}})
	if err != nil || !got.Ignored {
		t.Errorf("as a registration token: %+v, %v", got, err)
	}
	values["token"] = s.NewRunner()
	var server *registration.ServerError
	if _, err := m.Register(t.Context(), registration.Request{Values: values, Server: gitlab.Registration{Locked: true, TagList: "a"}}); !errors.As(err, &server) {
		t.Errorf("with tags: %v", err)
	}
}

func TestWhatFailsLeavesTheFileAndGitLabAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values config.Values
		token  string
		want   string
	}{
		"a wrong token":              {config.Values{"token": "glrt-wrong", "executor": "shell"}, "", "403"},
		"a wrong registration token": {config.Values{"executor": "shell"}, "GR1348941wrong", "403"},
		"an entry that is not valid": {config.Values{"executor": "shel"}, gitlabtest.RegistrationToken, "no executor"},
		"no executor":                {config.Values{"token": "glrt-x"}, "", "needs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url, m := world(t, existing)
			test.values["url"] = url
			_, err := m.Register(t.Context(), registration.Request{Values: test.values, RegistrationToken: test.token, Server: gitlab.Registration{Locked: true}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v", err)
			}
			if got := content(t, m.Path); got != existing {
				t.Errorf("the file is now %q", got)
			}
			if s.Runner("00000000000000001001") != nil {
				t.Error("GitLab still has the runner")
			}
		})
	}
}

func TestRegistrationTokensThatAreTurnedOff(t *testing.T) {
	t.Parallel()
	s, url, m := world(t, existing)
	s.Fail(1, "POST /runners", 410)
	_, err := m.Register(t.Context(), registration.Request{Values: config.Values{"url": url, "executor": "shell"}, RegistrationToken: gitlabtest.RegistrationToken})
	if gitlab.Status(err) != 410 || !strings.Contains(err.Error(), "create a runner there") {
		t.Errorf("%v", err)
	}
}

// entries are a file with an entry of each token.
func entries(url string, tokens ...string) string {
	text := existing
	for _, token := range tokens {
		text += "\n# of " + url + "\n[[runners]]\n  name = \"" + token[len(token)-2:] + "\"\n  url = \"" + url + "\"\n  token = \"" + token + "\"\n  executor = \"shell\"\n"
	}
	return text
}

func TestVerify(t *testing.T) {
	t.Parallel()
	s, url, m := world(t, "")
	token := s.NewRunner()
	for _, test := range []struct {
		token string
		want  registration.Verdict
	}{{token, registration.Valid}, {"glrt-gone", registration.Removed}} {
		if got, err := m.Verify(t.Context(), &config.Runner{URL: url, Token: test.token}); got != test.want || err != nil {
			t.Errorf("%s: %v, %v", test.token, got, err)
		}
	}
	s.Fail(1, "POST /runners/verify", 422)
	if got, err := m.Verify(t.Context(), &config.Runner{URL: url, Token: token}); got != registration.Unknown || gitlab.Status(err) != 422 {
		t.Errorf("an orphan: %v, %v", got, err)
	}
	if got, err := m.Verify(t.Context(), &config.Runner{URL: "http://127.0.0.1:1", Token: token}); got != registration.Unknown || err == nil {
		t.Errorf("nobody there: %v, %v", got, err)
	}
}

func TestUnregisterTakesThisMachineFromARunnerThatWasMadeInGitLab(t *testing.T) {
	t.Parallel()
	s, url, m := world(t, "")
	one, two := s.NewRunner(), s.NewRunner()
	if err := os.WriteFile(m.Path, []byte(entries(url, one, two)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Verify(t.Context(), &c.Runners[0]); err != nil {
		t.Fatal(err)
	}
	if err := m.Unregister(t.Context(), &c.Runners[0]); err != nil {
		t.Fatal(err)
	}
	if r := s.Runner(one); r == nil || len(r.Managers) != 0 {
		t.Errorf("GitLab has %v", r)
	}
	if got := content(t, m.Path); strings.Contains(got, one) || !strings.Contains(got, two) || !strings.HasPrefix(got, existing) {
		t.Errorf("the file is now %s", got)
	}
	if err := m.Unregister(t.Context(), &c.Runners[1]); err != nil { // which GitLab does not know from this machine
		t.Error(err)
	}
	if err := m.Unregister(t.Context(), &c.Runners[1]); err == nil || !strings.Contains(err.Error(), "not in") {
		t.Errorf("twice: %v", err)
	}
}

func TestATokenIsReplacedAfterThreeQuartersOfItsLife(t *testing.T) {
	t.Parallel()
	s, url, m := world(t, "")
	tokens := []string{s.NewRunner(), s.NewRunner(), s.NewRunner(), s.NewRunner()}
	issued := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	text := entries(url, tokens...)
	for i, times := range []string{
		"  token_obtained_at = 2026-01-01T00:00:00Z\n  token_expires_at = 2026-01-05T00:00:00Z\n", // due on the 4th
		"  token_obtained_at = 2026-01-01T00:00:00Z\n  token_expires_at = 2026-02-01T00:00:00Z\n",
		"  token_obtained_at = 2026-01-01T00:00:00Z\n  token_expires_at = 0001-01-01T00:00:00Z\n",
		"  token_obtained_at = 2026-01-01T00:00:00Z\n  token_expires_at = 2026-01-05T00:00:00Z\n  feature_flags = { FF_DISABLE_AUTOMATIC_TOKEN_ROTATION = true }\n",
	} {
		text = strings.Replace(text, "  token = \""+tokens[i]+"\"\n", "  token = \""+tokens[i]+"\"\n"+times, 1)
	}
	if err := os.WriteFile(m.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	s.Expire(tokens[0], time.Now().Add(time.Hour)) // the new one will have an end, too
	m.Now = func() time.Time { return issued.Add(3*24*time.Hour - time.Second) }
	if rotated, err := m.Rotate(t.Context(), c); len(rotated) > 0 || err != nil {
		t.Errorf("too early: %v, %v", rotated, err)
	}
	m.Now = func() time.Time { return issued.Add(3 * 24 * time.Hour) }
	rotated, err := m.Rotate(t.Context(), c)
	if err != nil || len(rotated) != 1 || rotated[0] != "01" {
		t.Fatalf("%v, %v", rotated, err)
	}
	now, err := config.Read(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	if r := now.Runners[0]; s.Runner(tokens[0]) != nil || s.Runner(r.Token) == nil || !r.TokenObtainedAt.Equal(m.Now()) || r.TokenExpiresAt.IsZero() {
		t.Errorf("the entry is %+v", r)
	}
	if want := strings.ReplaceAll(text, tokens[0], now.Runners[0].Token); strings.Count(content(t, m.Path), "\n") != strings.Count(want, "\n") {
		t.Errorf("the file is now %s", content(t, m.Path))
	}
}

func TestNoTokenIsAskedForThatCouldNotBeKept(t *testing.T) {
	t.Parallel()
	s, url, m := world(t, "")
	token := s.NewRunner()
	if err := os.WriteFile(m.Path, []byte(`runners = [{ url = "`+url+`", token = "`+token+`", executor = "shell" }]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.ResetToken(t.Context(), &config.Runner{URL: url, Token: token}, ""); err == nil || !strings.Contains(err.Error(), "cannot be changed") || s.Runner(token) == nil {
		t.Errorf("%v, and GitLab has %v", err, s.Runner(token))
	}
}
