package github

import (
	"os"
	"path/filepath"
	"testing"
)

func TestASetOfFilesServesOneProcessAfterAnother(t *testing.T) {
	temp, list := t.TempDir(), []byte("[]")
	take := func(j *job) *fileSet {
		t.Helper()
		set, err := j.takeFiles(temp, list)
		if err != nil {
			t.Fatal(err)
		}
		for variable, name := range fileVariables {
			want := ""
			if variable == "GITHUB_ARTIFACTS_LIST" {
				want = string(list)
			}
			if got, err := os.ReadFile(filepath.Join(set.dir, name)); err != nil || string(got) != want {
				t.Errorf("%s holds %q, %v", name, got, err)
			}
		}
		return set
	}
	j := newJob()
	first := take(j)
	other := take(j) // at the same time
	if first.dir == other.dir {
		t.Fatal("two processes have the same files")
	}
	if err := os.WriteFile(filepath.Join(first.dir, "output"), []byte("a=b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j.giveFiles(first)
	list = []byte(`["one"]`)
	if again := take(j); again.dir != first.dir {
		t.Errorf("the next process has %s, not %s", again.dir, first.dir)
	}
}

func TestASetThatAProcessHasChangedIsNotUsedAgain(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"a file that is a link": func(dir string) error {
			file := filepath.Join(dir, "env")
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(dir, "output"), file)
		},
		"a file that is a folder": func(dir string) error {
			file := filepath.Join(dir, "env")
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Mkdir(file, 0o700)
		},
		"a file that is gone":     func(dir string) error { return os.Remove(filepath.Join(dir, "state")) },
		"a file too many":         func(dir string) error { return os.WriteFile(filepath.Join(dir, "more"), nil, 0o600) },
		"another list":            func(dir string) error { return os.WriteFile(filepath.Join(dir, "artifacts_list"), nil, 0o600) },
		"a folder that is gone":   os.RemoveAll,
		"a folder that is a file": func(dir string) error { _ = os.RemoveAll(dir); return os.WriteFile(dir, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			j, temp := newJob(), t.TempDir()
			set, err := j.takeFiles(temp, []byte("[]"))
			if err != nil {
				t.Fatal(err)
			}
			if err := harm(set.dir); err != nil {
				t.Skipf("needs links: %v", err)
			}
			j.giveFiles(set)
			again, err := j.takeFiles(temp, []byte("[]"))
			if err != nil || again.dir == set.dir {
				t.Errorf("the next process has %v, %v", again, err)
			}
		})
	}
}
