package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/internal/tempfolder"
)

// Verified returns a file to run, and what removes it. With a pin it is a copy in a folder that only this user may enter, made while its
// digest was computed: what was verified is what runs, whatever becomes of the original.
func (k *Kind) Verified(c *Config) (file string, remove func(), err error) {
	nothing := func() {}
	file, pin, err := k.find(c)
	if err != nil || pin == "" {
		return file, nothing, err
	}
	want, err := hex.DecodeString(strings.TrimPrefix(strings.ToLower(pin), "sha256:"))
	if err != nil || len(want) != sha256.Size {
		return "", nothing, fmt.Errorf("the pin of the %s %q must be a SHA-256 in hexadecimal, not %q", k.Name, c.Name, pin)
	}
	folder, err := tempfolder.Make("plugin")
	if err != nil {
		return "", nothing, err
	}
	remove = func() { tempfolder.Remove(folder) }
	copied := filepath.Join(folder, filepath.Base(file))
	sum, err := copyFile(file, copied)
	if err == nil && sum != hex.EncodeToString(want) {
		pinned := "what the configuration pins"
		if c.SHA256 == "" {
			pinned = "what was installed"
		}
		err = fmt.Errorf("the %s %q is not %s: %s has the SHA-256 %s, and it must be %x; nothing of it was run", k.Name, c.Name, pinned, file, sum, want)
	}
	if err != nil {
		remove()
		return "", nothing, err
	}
	return copied, remove, nil
}

// copyFile copies a program and returns its SHA-256.
func copyFile(from, to string) (sum string, err error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	const program = 0o700
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, program)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, hash), in)
	return hex.EncodeToString(hash.Sum(nil)), errors.Join(err, out.Close())
}
