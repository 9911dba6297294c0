package machine

import "testing"

func TestWhatIsStopped(t *testing.T) {
	for _, c := range []struct {
		state      string
		told, want bool
	}{
		{"R", false, false},
		{"R", true, false},
		{"S", true, false},
		{"T", false, true},
		{"Z", false, true},
		{"D", false, false},
		{"D", true, true}, // as the parent of a child that was stopped between vfork and exec, for good
	} {
		if got := stopped(c.state, c.told); got != c.want {
			t.Errorf("state %s, told %t: %t", c.state, c.told, got)
		}
	}
}
