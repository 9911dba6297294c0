package replay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/session"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/replay"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

func TestWhatIsMaskedInADescribedPlaceIsGivenAgain(t *testing.T) {
	const placeholder = "placeholder-of-replay-for-"
	described := func() *event.Environment {
		return &event.Environment{
			Variables: map[string]string{"URL": "db://[MASKED]", "UNUSED": "db://[MASKED]", "PLAIN": "x"},
			Services:  []event.Service{{Service: containers.Service{Variables: map[string]string{"PASSWORD": "[MASKED]"}}}},
			Files: []event.File{
				{To: "/p.tmp/KEY", Name: "KEY", Text: "[MASKED]"}, {To: "/p.tmp/OPEN", Name: "OPEN", Text: "open"}, {To: "/p.tmp/CERT", Name: "CERT", Text: "[MASKED]"},
			},
		}
	}
	for _, c := range []struct {
		name    string
		given   map[string]string
		all     bool
		missing string // in the error; the rest is for success
	}{
		{name: "nothing is given", missing: "the variables KEY, PASSWORD, URL, which"},
		{name: "what services have of their own is not", given: map[string]string{"URL": "u", "KEY": "k"}, missing: "the variables PASSWORD, which"},
		{name: "all has to be", given: map[string]string{"URL": "u", "PASSWORD": "p", "KEY": "k"}, all: true, missing: "the variables CERT, UNUSED, which"},
		{name: "what is named is", given: map[string]string{"URL": "u", "PASSWORD": "p", "KEY": "k"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := &plan.Script{Text: plan.Field{Value: value.OfString("psql $URL; ssh -i $KEY")}}
			recorded := &trace.Trace{Run: trace.Run{
				Environment: described(), Component: &plan.Component{Definition: plan.Definition{Exec: &plan.Exec{Script: script}}},
			}}
			needs, err := replay.NewNeeds(recorded, &replay.Options{Given: c.given, AllSecrets: c.all})
			if err != nil {
				t.Fatal(err)
			}
			r := &replaying{needs: needs}
			got, err := r.filled(&recorded.Run)
			if diff := cmp.Diff(described(), recorded.Run.Environment); diff != "" {
				t.Errorf("the trace was changed:\n%s", diff)
			}
			if c.missing != "" {
				if err == nil || !strings.Contains(err.Error(), c.missing) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := described()
			want.Variables["URL"], want.Variables["UNUSED"] = "u", "db://"+placeholder+"UNUSED"
			want.Services[0].Variables["PASSWORD"] = "p"
			want.Files[0].Text, want.Files[2].Text = "k", placeholder+"CERT"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the place (-want +got):\n%s", diff)
			}
			if !slices.Equal(r.placeholders, []string{"UNUSED", "CERT"}) {
				t.Errorf("placeholders for %v", r.placeholders)
			}
		})
	}
	secret := &trace.Run{Environment: &event.Environment{Services: []event.Service{{Service: containers.Service{Image: containers.Image{Name: "db"}, Command: []string{"[MASKED]"}}}}}}
	if _, err := (&replaying{}).filled(secret); err == nil || !strings.Contains(err.Error(), "db") {
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
