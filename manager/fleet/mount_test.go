package fleet

import "testing"

func TestTheIDOfAVolumeDoesNotLeaveTheFolderOfMounts(t *testing.T) {
	t.Parallel()
	m := &mounts{folder: "/volumes"}
	seen := map[string]string{}
	for _, id := range []string{"vol-1", "", ".", "..", "../etc", "a/b", "a%2Fb", "/", "a b\n"} {
		at := m.at(id)
		if !m.has(at) || seen[at] != "" {
			t.Errorf("%q is in %q, as %q", id, at, seen[at])
		}
		seen[at] = "another one"
	}
}
