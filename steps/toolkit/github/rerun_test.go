package github

import (
	"fmt"
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
	said := func(at time.Time) string {
		return fmt.Sprintf(`{"created": %q, "key": "x"}`, at.Format(time.RFC3339Nano))
	}
	for name, text := range map[string]string{
		"old.json": said(began.Add(-time.Millisecond)), "old.zip": "old", "new.json": said(began.Add(time.Millisecond)), "new.zip": "new",
		"broken.json": "{", "broken.zip": "x", "stray.zip": "x",
	} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
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
