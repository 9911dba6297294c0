package credentials

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/wholefile"
)

// StoreRegistry keeps a name and a password for a registry as `docker login` does: with the credential helper that Docker's configuration names, else in that
// file, which others may not read. It returns where they are now, for people. All else in the file stays.
func (f *Finder) StoreRegistry(ctx context.Context, registry, user, password string) (where string, err error) {
	if strings.ContainsAny(registry+user+password, "\r\n\x00") || user == "" || strings.Contains(user, ":") {
		return "", errors.New("a name or a password with a line break, and a name with a colon or none, cannot be stored")
	}
	path := f.dockerConfigFile()
	if path == "" {
		return "", errors.New("there is no home folder for Docker's configuration: set DOCKER_CONFIG")
	}
	text, err := readFile(path)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(string(text)) == "" {
		text = []byte("{}")
	}
	config, err := parseDockerConfig(path, text)
	if err != nil {
		return "", err
	}
	key := strings.ToLower(registry)
	if slices.Contains(hubHosts, key) {
		key = dockerHub
	}
	if helper := cmp.Or(byKey(config.CredHelpers)[normalKey(key)].value, config.CredsStore); helper != "" {
		return "docker-credential-" + helper, f.storeInHelper(ctx, helper, key, user, password)
	}
	changed, err := withAuth(text, key, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	if err != nil {
		return "", fmt.Errorf("%s cannot be changed: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, wholefile.WriteText(path, 0o600, changed)
}

// withAuth sets the entry of a registry in the text of a configuration. Whatever else is in it stays.
func withAuth(text []byte, key, auth string) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, errors.New("it is not a JSON object")
	}
	auths := map[string]json.RawMessage{}
	if raw, ok := all["auths"]; ok {
		if err := json.Unmarshal(raw, &auths); err != nil || auths == nil {
			auths = map[string]json.RawMessage{}
		}
	}
	for other := range auths {
		if normalKey(other) == normalKey(key) {
			delete(auths, other)
		}
	}
	entry, err := json.Marshal(map[string]string{"auth": auth})
	if err != nil {
		return nil, err
	}
	auths[key] = entry
	if all["auths"], err = json.Marshal(auths); err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(all, "", "\t")
	return append(out, '\n'), err
}

// storeInHelper runs docker-credential-NAME store.
func (f *Finder) storeInHelper(ctx context.Context, helper, server, user, password string) error {
	program := "docker-credential-" + helper
	if strings.ContainsAny(helper, "/\\ \t\n") {
		return errors.New("the credential helper that Docker's configuration names is not the name of a program")
	}
	request, err := json.Marshal(struct{ ServerURL, Username, Secret string }{server, user, password})
	if err != nil {
		return err
	}
	if _, err := f.run(ctx, []string{program, "store"}, string(request)); err != nil {
		return fmt.Errorf("%s stored no credentials: %w", program, brief(err))
	}
	return nil
}
