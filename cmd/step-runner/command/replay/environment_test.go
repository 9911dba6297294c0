package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/session"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

func TestWhatIsMaskedInADescribedPlaceIsGivenAgain(t *testing.T) {
	described := &event.Environment{
		Variables: map[string]string{"URL": "db://[MASKED]", "PLAIN": "x"},
		Services:  []event.Service{{Service: containers.Service{Variables: map[string]string{"PASSWORD": "[MASKED]"}}}},
		Files:     []event.File{{To: "/p.tmp/KEY", Name: "KEY", Text: "[MASKED]"}, {To: "/p.tmp/OPEN", Name: "OPEN", Text: "open"}},
	}
	if _, err := filled(described, map[string]string{"URL": "u"}); err == nil || !strings.Contains(err.Error(), "KEY") || !strings.Contains(err.Error(), "PASSWORD") {
		t.Errorf("got %v", err)
	}
	got, err := filled(described, map[string]string{"URL": "u", "PASSWORD": "p", "KEY": "k"})
	if err != nil || got.Variables["URL"] != "u" || got.Variables["PLAIN"] != "x" || got.Services[0].Variables["PASSWORD"] != "p" || got.Files[0].Text != "k" || got.Files[1].Text != "open" {
		t.Errorf("got %+v, %v", got, err)
	}
	if described.Files[0].Text != "[MASKED]" || described.Services[0].Variables["PASSWORD"] != "[MASKED]" {
		t.Error("the trace was changed")
	}
	secret := &event.Environment{Services: []event.Service{{Service: containers.Service{Image: containers.Image{Name: "db"}, Command: []string{"[MASKED]"}}}}}
	if _, err := filled(secret, nil); err == nil || !strings.Contains(err.Error(), "db") {
		t.Errorf("got %v", err)
	}
}

func TestServicesThatAreNotThoseOfTheRecordedRunAreRefusedOrTold(t *testing.T) {
	recorded := imagesOf(&event.Environment{Level: "none", Services: []event.Service{
		{Service: containers.Service{Image: containers.Image{Name: "db"}}, Found: event.Found{Digest: "sha256:1"}},
		{Service: containers.Service{Image: containers.Image{Name: "old"}}}, // of a trace that does not tell
	}})
	said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	r := &replaying{Session: session.New(&command.Program{Stderr: said})}
	if err := r.sameImages(recorded, []executor.FoundImage{{ID: "sha256:1"}, {ID: "sha256:9"}}); err != nil {
		t.Error(err)
	}
	other := []executor.FoundImage{{ID: "sha256:2"}, {ID: "sha256:9"}}
	const text = "the image db is not that of the recorded run (sha256:1 → sha256:2)"
	if err := r.sameImages(recorded, other); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v", err)
	}
	r.options.Changed = true
	err = r.sameImages(recorded, other)
	if told, _ := os.ReadFile(said.Name()); err != nil || !strings.Contains(string(told), text) {
		t.Errorf("with --changed: %v, %q", err, told)
	}
}
