package replay

import (
	"strings"
	"testing"

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
