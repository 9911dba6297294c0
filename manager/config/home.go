package config

import (
	"os"
	"path/filepath"

	"github.com/rungci/rung/internal/account"
)

// HomeBuilds is the folder for the projects of a user's jobs without builds_dir, where gitlab-runner has it; empty without a home, or such a user.
func HomeBuilds(name string) string {
	u, err := account.Find(name)
	if err != nil {
		return "" // the level says so
	}
	if info, err := os.Stat(u.HomeDir); err != nil || !info.IsDir() {
		return ""
	}
	return filepath.Join(u.HomeDir, "builds")
}
