package credentials

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func basic(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// auths is a Docker configuration with entries of "key user:password".
func auths(entries ...string) string {
	var parts []string
	for _, e := range entries {
		key, text, _ := strings.Cut(e, " ")
		parts = append(parts, fmt.Sprintf(`%q: {"auth": %q}`, key, basic(text)))
	}
	return `{"auths": {` + strings.Join(parts, ", ") + `}}`
}

func registry(t *testing.T, f *Finder, host, repository string) string {
	t.Helper()
	user, password, ok, err := f.Registry(t.Context(), host, repository)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return user + ":" + password
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	const host, repo = "registry.example:5000", "group/project/step"
	for _, tc := range []struct{ name, env, file, host, want string }{
		{name: "C124 no configuration: nothing"},
		{name: "C124 an empty variable: nothing", env: "  "},
		{name: "C124 an empty configuration: nothing", env: "{}"},
		{name: "C124 no entries: nothing", env: `{"auths": {}}`},
		{name: "C124 an entry for another host: nothing", env: auths("other.example u:p")},
		{name: "C124 an entry for a host that begins alike: nothing", env: auths("registry.example:50001 u:p", "registry.example u:p")},
		{name: "C124 the registry", env: auths("other.example x:x", host+" u:p"), want: "u:p"},
		{name: "C124 the repository comes before the registry", env: auths(host+" u:p", host+"/"+repo+" repo:p"), want: "repo:p"},
		{name: "C124 a folder of repositories", env: auths(host+" u:p", host+"/group group:p"), want: "group:p"},
		{name: "C124 the repository of another: the registry", env: auths(host+" u:p", host+"/group/pro repo:p"), want: "u:p"},
		{name: "C124 Docker Hub as Docker writes it", env: auths("https://index.docker.io/v1/ hub:p"), host: "docker.io", want: "hub:p"},
		{name: "C124 Docker Hub by another name", env: auths("docker.io hub:p"), host: "registry-1.docker.io", want: "hub:p"},
		{name: "C124 Docker Hub is no other host", env: auths("https://index.docker.io/v1/ hub:p")},
		{name: "a key with a scheme", env: auths("https://" + host + "/v2/ u:p"), want: "u:p"},
		{name: "case does not matter", env: auths("REGISTRY.example:5000 u:p"), want: "u:p"},
		{name: "the file", file: auths(host + " u:p"), want: "u:p"},
		{name: "the variable comes before the file", env: auths(host + " env:p"), file: auths(host + " u:p"), want: "env:p"},
		{name: "the file when the variable has none", env: auths("other.example u:p"), file: auths(host + " u:p"), want: "u:p"},
		{name: "user and password in clear", env: `{"auths": {"registry.example:5000": {"username": "u", "password": "p"}}}`, want: "u:p"},
		{name: "an identity token", env: `{"auths": {"registry.example:5000": {"identitytoken": "t", "auth": "` + basic("u:") + `"}}}`, want: "<token>:t"},
		{name: "a password with a colon", env: auths(host + " u:p:q"), want: "u:p:q"},
		{name: "a password with bytes of nothing at its end", env: auths(host + " u:p\x00\x00"), want: "u:p"},
		{name: "other keys are none of ours", env: `{"HttpHeaders": {"a": "b"}, "auths": {"registry.example:5000": {"auth": "` + basic("u:p") + `", "email": "e"}}}`, want: "u:p"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := finder(t, map[string]string{".docker/config.json": tc.file}, "DOCKER_AUTH_CONFIG="+tc.env)
			at := host
			if tc.host != "" {
				at = tc.host
			}
			if got := registry(t, f, at, repo); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRegistryAsksDockersHelpers(t *testing.T) {
	t.Parallel()
	needsShell(t)
	answer := `#!/bin/sh
test "$1" = get || exit 1
read server
printf '{"ServerURL":"x","Username":"u","Secret":"%s"}' "$server"
`
	none := "#!/bin/sh\necho credentials not found in native keychain; exit 1\n"
	for _, tc := range []struct{ name, config, host, want string }{
		{"the store", `{"credsStore": "mine"}`, "r.example", "u:r.example"},
		{"the store, beside the empty entries that Docker writes", `{"auths": {"r.example": {}}, "credsStore": "mine"}`, "r.example", "u:r.example"},
		{"the store knows Docker Hub by its old name", `{"credsStore": "mine"}`, "docker.io", "u:https://index.docker.io/v1/"},
		{"a helper for one registry", `{"credHelpers": {"r.example": "mine"}, "credsStore": "none"}`, "r.example", "u:r.example"},
		{"a helper for another registry", `{"credHelpers": {"s.example": "mine"}}`, "r.example", ""},
		{"an entry with credentials comes before the store", strings.TrimSuffix(auths("r.example a:b"), "}") + `, "credsStore": "mine"}`, "r.example", "a:b"},
		{"a store that has nothing", `{"credsStore": "none"}`, "r.example", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := finder(t, map[string]string{
				"docker/config.json": tc.config, "bin/docker-credential-mine": answer, "bin/docker-credential-none": none,
			})
			f.Env = append(f.Env, "DOCKER_CONFIG="+filepath.Join(f.Home, "docker"))
			if got := registry(t, f, tc.host, "p"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestABadDockerConfigurationShowsNothingOfItself(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON":                  `{"auths": s3cr3t`,
		"another type":             `{"auths": "s3cr3t"}`,
		"not base64":               `{"auths": {"r.example": {"auth": "s3cr3t!"}}}`,
		"no colon":                 `{"auths": {"r.example": {"auth": "` + basic("s3cr3t") + `"}}}`,
		"a helper that is a path":  `{"credsStore": "../s3cr3t"}`,
		"a helper that is missing": `{"credsStore": "nowhere"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, f := range []*Finder{
				finder(t, map[string]string{".docker/config.json": text}),
				finder(t, nil, "DOCKER_AUTH_CONFIG="+text),
			} {
				_, _, ok, err := f.Registry(t.Context(), "r.example", "p")
				if ok || err == nil || strings.Contains(err.Error(), "s3cr3t") {
					t.Errorf("got %v, %v", ok, err)
				}
			}
		})
	}
}

func FuzzDockerConfig(f *testing.F) {
	f.Add(auths("r.example u:p"), "r.example", "p/q")
	f.Add(`{"auths": {"https://index.docker.io/v1/": {"identitytoken": "x"}}}`, "docker.io", "library/x")
	f.Add(`{"auths": {"": {"auth": "Og=="}}}`, "", "//")
	f.Fuzz(func(t *testing.T, text, host, repository string) {
		config, err := parseDockerConfig("DOCKER_AUTH_CONFIG", []byte(text))
		if err != nil {
			return
		}
		config.CredHelpers, config.CredsStore = nil, ""
		finder := &Finder{}
		user, _, ok, err := finder.fromDocker(t.Context(), config, registryKeys(host, repository), "x")
		if ok && (user == "" || err != nil) {
			t.Errorf("user %q, error %v", user, err)
		}
	})
}
