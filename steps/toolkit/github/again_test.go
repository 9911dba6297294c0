package github

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestARunThatIsDoneAgainFindsWhatWasThere(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "then")
	began := time.Now().Add(-time.Hour)
	for name, age := range map[string]time.Duration{
		"old.json": -time.Minute, "old.zip": time.Minute, // restored later: its description says when it was made
		"new.json": time.Minute, "new.zip": -time.Minute, "stray.zip": -time.Minute,
	} {
		path := filepath.Join(from, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, began.Add(age), began.Add(age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := asOf(from, to, began); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "old.json old.zip" {
		t.Errorf("there is %s", got)
	}
	if err := asOf(filepath.Join(from, "none"), filepath.Join(to, "empty"), began); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestAgainTellsTheJob(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-time.Hour)
	w := world{}
	j, err := jobOf(onceAgain(w.once, began))
	if err != nil || !j.began.Equal(began) {
		t.Errorf("the job began at %v, %v", j.began, err)
	}
	toolkit, functions := Again(began)
	if toolkit == nil || len(functions) != len(Functions) {
		t.Errorf("%d functions", len(functions))
	}
}
