package instancegroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Load reads a value that Save has written for a group with these settings, also in another process. Where there is none, value is left as it is.
func Load(settings Settings, name string, value any) error {
	if settings.State == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(settings.State, name+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		return fmt.Errorf("the record %q of the group: %w", name, err)
	}
	return nil
}

// Save writes a value, in a file that only its owner can read. It is there as a whole, or as it was before.
func Save(settings Settings, name string, value any) error {
	if settings.State == "" {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	const private = 0o600
	file := filepath.Join(settings.State, name+".json")
	if err := os.WriteFile(file+".new", text, private); err != nil {
		return fmt.Errorf("the record %q of the group: %w", name, err)
	}
	return os.Rename(file+".new", file)
}
