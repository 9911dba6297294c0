package pack

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMetadata(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"script.sh": "echo", "a/b": "", "a/link": "-> b"})
	got, err := Metadata(context.Background(), dir, []string{"script.sh", "a", "a/b", "a/link", "missing"}, Provenance{
		Project: "https://gitlab.example.com/group/project", Commit: "f0582e2c9a16b5cc2cde90e8be8f1b50fd67c631", Job: "build <1>", JobID: "123",
		Variables: []string{"CI", "SECRET"}, RunnerID: "7", RunnerName: "local", Executor: "shell", System: "amd64", Version: "v1.2.3",
		Started: modified, Finished: modified.Add(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "_type": "https://in-toto.io/Statement/v1",
 "subject": [
  {
   "name": "a/b",
   "digest": {
    "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
   }
  },
  {
   "name": "script.sh",
   "digest": {
    "sha256": "092c79e8f80e559e404bcf660c48f3522b67aba9ff1484b0367e1a4ddef7431d"
   }
  }
 ],
 "predicateType": "https://slsa.dev/provenance/v1",
 "predicate": {
  "buildDefinition": {
   "buildType": "https://gitlab.com/gitlab-org/gitlab-runner/-/blob/v1.2.3/PROVENANCE.md",
   "externalParameters": {
    "CI": "",
    "SECRET": "",
    "entryPoint": "build <1>",
    "source": "https://gitlab.example.com/group/project"
   },
   "internalParameters": {
    "architecture": "amd64",
    "executor": "shell",
    "job": "123",
    "name": "local"
   },
   "resolvedDependencies": [
    {
     "uri": "https://gitlab.example.com/group/project",
     "digest": {
      "gitCommit": "f0582e2c9a16b5cc2cde90e8be8f1b50fd67c631"
     }
    }
   ]
  },
  "runDetails": {
   "builder": {
    "id": "https://gitlab.example.com/group/project/-/runners/7",
    "version": {
     "gitlab-runner": "v1.2.3"
    }
   },
   "metadata": {
    "invocationID": "123",
    "startedOn": "2026-03-04T05:06:08Z",
    "finishedOn": "2026-03-04T05:07:08Z"
   }
  }
 }
}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if name := MetadataName("artifacts"); name != "artifacts-metadata.json" {
		t.Errorf("got %s", name)
	}
}
