package imageuser_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/executor/imageuser"
)

func TestOfALongFileItIsSaidHowMuchIsRead(t *testing.T) {
	for text, want := range map[string]string{
		"root:x:0:0::/:": `no user "ann"`,
		strings.Repeat("#\n", imageuser.MaxFile/2): `no user "ann" in the first 4 MiB of its file, and no more is read`,
	} {
		if _, err := imageuser.Find("ann", func(string) ([]byte, error) { return []byte(text), nil }); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
