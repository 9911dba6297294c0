package python_test

import (
	"io/fs"
	"path"
	"slices"
	"testing"

	"github.com/rungci/rung/sdk/python"
)

func TestFilesAreTheModulesAlone(t *testing.T) {
	var found []string
	err := fs.WalkDir(python.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, name)
			if path.Ext(name) != ".py" {
				t.Errorf("%s is not a module", name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rung_executor.py", "rung_instancegroup.py", "rung_provider.py", "rung/executor/v1/executor_pb2.py", "rung/fleet/v1/fleet_pb2.py", "rung/provider/v1/provider_pb2.py"} {
		if !slices.Contains(found, name) {
			t.Errorf("%s is missing", name)
		}
	}
}
