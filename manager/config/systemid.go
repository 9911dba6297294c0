package config

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rungci/rung/internal/wholefile"
)

// systemIDFile is beside the configuration.
const systemIDFile = ".runner_system_id"

var systemIDForm = regexp.MustCompile(`^[sr]_[0-9a-zA-Z]{12}$`)

// machineIDFiles say which machine this is, on Linux.
var machineIDFiles = []string{"/var/lib/dbus/machine-id", "/etc/machine-id"}

// SystemID is what tells this machine from others with the same token: s_ and 12 digits that are made of the machine's own ID, or r_ and 12
// random letters and digits. It is that of gitlab-runner on the same machine, and kept in .runner_system_id beside the configuration at path.
// An ID that cannot be written down comes with an error.
//
// Source: commands/internal/configfile/system_id_state.go in gitlab-runner.
func SystemID(path string) (string, error) {
	file := filepath.Join(filepath.Dir(path), systemIDFile)
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return newSystemID(), err
	}
	if id := strings.TrimSpace(string(kept)); systemIDForm.MatchString(id) {
		return id, nil
	}
	id := newSystemID()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return id, err
	}
	return id, wholefile.WriteSynced(file, fileMode, []byte(id))
}

func newSystemID() string {
	const length = 12
	for _, file := range machineIDFiles {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) != "" {
			mac := hmac.New(sha256.New, []byte(strings.TrimSpace(string(text))))
			mac.Write([]byte("gitlab-runner"))
			return "s_" + hex.EncodeToString(mac.Sum(nil))[:length]
		}
	}
	return "r_" + rand.Text()[:length]
}
