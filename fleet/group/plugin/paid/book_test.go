package paid

import "testing"

func TestARequestThatFailedCanBeMadeAgain(t *testing.T) {
	var b book
	for _, step := range []struct {
		entry            Entry
		known, uncertain bool
	}{
		{Entry{Kind: opened}, false, false},
		{Entry{Kind: create, Request: "r", Count: 1, Rate: &Rate{Price: 1}}, true, true},
		{Entry{Kind: failed, Request: "r"}, false, false},
		{Entry{Kind: create, Request: "r", Count: 1, Rate: &Rate{Price: 1}}, true, true},
		{Entry{Kind: answer, Instances: []string{"i"}}, true, false},
	} {
		step.entry.Owner = "suite"
		b.apply(step.entry)
		if o := b.known["suite"]; (o.asks("r") != nil) != step.known || o.uncertain() != step.uncertain {
			t.Errorf("after %+v it is known: %t, and uncertain: %t", step.entry, o.asks("r") != nil, o.uncertain())
		}
	}
}
