package credentials

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// dockerHub is the key that Docker keeps the credentials of its own registry under.
const dockerHub = "https://index.docker.io/v1/"

// hubHosts are the names that Docker's own registry has.
var hubHosts = []string{"docker.io", "index.docker.io", "registry-1.docker.io"}

// dockerConfig is the part of Docker's configuration file that is about credentials.
type dockerConfig struct {
	Auths       map[string]dockerAuth `json:"auths"`
	CredHelpers map[string]string     `json:"credHelpers"`
	CredsStore  string                `json:"credsStore"`
}

// dockerAuth is one entry; those that a helper keeps are empty.
type dockerAuth struct {
	Auth          string `json:"auth"` // user:password in base64
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
}

// Registry returns the credentials for a repository of a registry: from the variable DOCKER_AUTH_CONFIG, else from Docker's
// configuration file and the helpers that it names. An entry for a repository comes before one for the registry. Where the user is
// TokenUser, the password is an identity token. With ok false, err says why a place could not be asked.
func (f *Finder) Registry(ctx context.Context, registry, repository string) (user, password string, ok bool, err error) {
	keys := registryKeys(registry, repository)
	var failed []error
	for _, source := range f.dockerConfigs() {
		config, err := source.read()
		if err == nil && config != nil {
			user, password, ok, err = f.fromDocker(ctx, config, keys, source.name)
		}
		if ok {
			return user, password, true, nil
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return "", "", false, errors.Join(failed...)
}

// dockerSource is a place that Docker's configuration can be in.
type dockerSource struct {
	name string
	text func() ([]byte, error)
}

func (f *Finder) dockerConfigs() []dockerSource {
	sources := []dockerSource{{"DOCKER_AUTH_CONFIG", func() ([]byte, error) { return []byte(f.getenv("DOCKER_AUTH_CONFIG")), nil }}}
	if path := f.dockerConfigFile(); path != "" {
		sources = append(sources, dockerSource{path, func() ([]byte, error) { return readFile(path) }})
	}
	return sources
}

// dockerConfigFile is Docker's configuration file; empty without a home.
func (f *Finder) dockerConfigFile() string {
	dir := f.getenv("DOCKER_CONFIG")
	if dir == "" && f.Home != "" {
		dir = filepath.Join(f.Home, ".docker")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "config.json")
}

// read returns the configuration; nil when there is none.
func (s dockerSource) read() (*dockerConfig, error) {
	text, err := s.text()
	if err != nil || strings.TrimSpace(string(text)) == "" {
		return nil, err
	}
	return parseDockerConfig(s.name, text)
}

// parseDockerConfig reads Docker's configuration. Its error shows nothing of the text.
func parseDockerConfig(name string, text []byte) (*dockerConfig, error) {
	var config dockerConfig
	if err := json.Unmarshal(text, &config); err != nil {
		at := ""
		var syntax *json.SyntaxError
		var wrong *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			at = fmt.Sprintf(" at byte %d", syntax.Offset)
		case errors.As(err, &wrong):
			at = fmt.Sprintf(" at byte %d", wrong.Offset)
		}
		return nil, fmt.Errorf("%s is not a Docker configuration: its JSON is wrong%s; docker login writes it again", name, at)
	}
	return &config, nil
}

// registryKeys are the names that the credentials for a repository can stand under, the most precise first.
func registryKeys(registry, repository string) (keys []string) {
	hosts := []string{strings.ToLower(registry)}
	if slices.Contains(hubHosts, hosts[0]) {
		hosts = hubHosts
	}
	for path := strings.Trim(repository, "/"); path != ""; {
		for _, host := range hosts {
			keys = append(keys, host+"/"+path)
		}
		i := strings.LastIndexByte(path, '/')
		path = path[:max(i, 0)]
	}
	return append(keys, hosts...)
}

// normalKey takes off a key what people and tools add to a registry's name.
func normalKey(key string) string {
	for _, scheme := range []string{"https://", "http://"} {
		key = strings.TrimPrefix(key, scheme)
	}
	key = strings.TrimSuffix(key, "/")
	for _, version := range []string{"/v1", "/v2"} {
		key = strings.TrimSuffix(key, version)
	}
	host, path, hasPath := strings.Cut(key, "/")
	if host = strings.ToLower(host); hasPath {
		return host + "/" + path
	}
	return host
}

// fromDocker looks the keys up in one configuration.
func (f *Finder) fromDocker(ctx context.Context, config *dockerConfig, keys []string, name string) (user, password string, ok bool, err error) {
	helpers, auths := byKey(config.CredHelpers), byKey(config.Auths)
	for _, key := range keys {
		if helper, has := helpers[key]; has {
			return f.askDockerHelper(ctx, helper.value, helper.key)
		}
		if auth, has := auths[key]; has {
			if user, password, ok, err = auth.value.credentials(name); ok || err != nil {
				return user, password, ok, err
			}
		}
	}
	if config.CredsStore == "" {
		return "", "", false, nil
	}
	server := keys[len(keys)-1]
	if slices.Contains(hubHosts, server) {
		server = dockerHub
	}
	return f.askDockerHelper(ctx, config.CredsStore, server)
}

// entry is a value and the key it was written with, which helpers know it by.
type entry[V any] struct {
	key   string
	value V
}

// byKey returns the entries by their normal keys. Of several that mean the same the first in the alphabet counts.
func byKey[V any](m map[string]V) map[string]entry[V] {
	out := map[string]entry[V]{}
	for key, value := range m {
		normal := normalKey(key)
		if have, ok := out[normal]; !ok || key < have.key {
			out[normal] = entry[V]{key, value}
		}
	}
	return out
}

// credentials are those of an entry; ok is false where it holds none.
func (a dockerAuth) credentials(name string) (user, password string, ok bool, err error) {
	switch {
	case a.IdentityToken != "":
		return TokenUser, a.IdentityToken, true, nil
	case a.Username != "":
		return a.Username, a.Password, true, nil
	case a.Auth == "":
		return "", "", false, nil
	}
	raw, err := base64.StdEncoding.DecodeString(a.Auth)
	if err != nil {
		raw, err = base64.RawStdEncoding.DecodeString(a.Auth)
	}
	user, password, cut := strings.Cut(strings.TrimRight(string(raw), "\x00"), ":")
	if err != nil || !cut || user == "" {
		return "", "", false, fmt.Errorf("%s: the \"auth\" of a registry is not \"user:password\" in base64; docker login writes it again", name)
	}
	return user, password, true, nil
}

// notFoundAnswers begin what helpers write to say that they have nothing.
var notFoundAnswers = []string{"credentials not found", "no credentials", "the specified item could not be found"}

// askDockerHelper runs docker-credential-NAME.
func (f *Finder) askDockerHelper(ctx context.Context, helper, server string) (user, password string, ok bool, err error) {
	program := "docker-credential-" + helper
	if helper == "" || strings.ContainsAny(helper, "/\\ \t\n") {
		return "", "", false, errors.New("the credential helper that Docker's configuration names is not the name of a program")
	}
	if f.NoHelpers {
		return "", "", false, fmt.Errorf("it names the credential helper %s, and helpers are run for your own configuration only: "+
			"give name and password in `auths`, or name the helper in ~/.docker/config.json", program)
	}
	out, err := f.run(ctx, []string{program, "get"}, server+"\n")
	if errors.Is(err, errSilent) {
		answer := strings.ToLower(out)
		for _, none := range notFoundAnswers {
			if strings.Contains(answer, none) {
				return "", "", false, nil
			}
		}
	}
	if err != nil {
		return "", "", false, fmt.Errorf("%s gave no credentials: %w", program, brief(err))
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return "", "", false, fmt.Errorf("%s gave an answer that is not the JSON of a Docker credential helper", program)
	}
	return answer.Username, answer.Secret, answer.Secret != "", nil
}
